"""A bundle on disk: opened only when every file that its manifest lists is there and unaltered."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mulo_engines.errors import BundleError
from mulo_engines.manifest import MANIFEST_NAME, FileRecord, Manifest, read_manifest

__all__ = ["NEIGHBOUR_FILE", "Bundle", "describe_file"]

NEIGHBOUR_FILE = "neighbours.safetensors"
"""Where a bundle keeps, as `neighbours` [V, K] int32, the codebook entries nearest to every entry, itself first."""

_COPY_AGAIN = "copy the bundle again from where it came from, or export it again with `mulo-export`"


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened bundle.

    Attributes:
        path: its folder, absolute.
        manifest: what it says of itself.
    """

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path, verify: Literal["full", "size"] = "full") -> Bundle:
        """Open the bundle in the folder `path`; no graph or weight is loaded.

        Args:
            path: the folder.
            verify: "full" compares sizes and SHA-256; "size" compares sizes only, once a bundle was verified in full.

        Raises:
            BundleError: the manifest is refused, or a file is missing, truncated, altered or a link.
        """
        if not path.is_dir():
            raise BundleError(f"{path}: no such folder", expected="a bundle", fix="make one with `mulo-export`")
        root = path.resolve()
        manifest = read_manifest(root / MANIFEST_NAME)
        for record in manifest.files:
            _check_size(root, record)
        if verify == "full":
            for record in manifest.files:
                _check_content(root, record)
        return cls(root, manifest)

    def graph(self, name: str) -> Path:
        """The ONNX file of the graph `name`.

        Raises:
            BundleError: the bundle has no such graph.
        """
        for record in self.manifest.graphs:
            if record.name == name:
                return self.path / record.file
        raise BundleError(
            f"{self.path}: the bundle has no graph {name!r}",
            expected=", ".join(record.name for record in self.manifest.graphs),
            fix="export the bundle again with a current `mulo-export`",
        )

    def file(self, path: str) -> Path:
        """The file that the manifest lists as `path`.

        Raises:
            BundleError: it lists no such file.
        """
        if path not in {record.path for record in self.manifest.files}:
            raise BundleError(f"{self.path}: {path!r} is not a file of the bundle", fix="use a path of its manifest")
        return self.path / path


def describe_file(root: Path, path: str) -> FileRecord:
    """The manifest's record of the file `path` below the folder `root`."""
    return FileRecord(path=path, size=(root / path).stat().st_size, sha256=_sha256(root / path))


def _check_size(root: Path, record: FileRecord) -> None:
    """Refuse a file that is missing, is reached through a link, or has another size."""
    place = root
    try:
        for part in record.path.split("/"):
            place = place / part
            status = place.lstat()
            if stat.S_ISLNK(status.st_mode):
                raise _refused(root, record, "is a link or lies behind one", place.readlink(), "a file in the bundle")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _refused(root, record, "is missing", None, f"a file of {record.size} bytes") from error
    if not stat.S_ISREG(status.st_mode):
        raise _refused(root, record, "is not a file", stat.filemode(status.st_mode), "a file")
    if status.st_size != record.size:
        raise _refused(root, record, "has another size", f"{status.st_size} bytes", f"{record.size} bytes")


def _check_content(root: Path, record: FileRecord) -> None:
    found = _sha256(root / record.path)
    if found != record.sha256:
        raise _refused(root, record, "was altered", f"SHA-256 {found}", f"SHA-256 {record.sha256}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refused(root: Path, record: FileRecord, fault: str, found: object, expected: str) -> BundleError:
    return BundleError(f"{root}: {record.path!r} {fault}", found=found, expected=expected, fix=_COPY_AGAIN)
