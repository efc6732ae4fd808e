"""Publish a directory at once: whoever opens it finds all of the old one, all of the new one, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from mulo_engines.errors import BundleError
from mulo_engines.manifest import MANIFEST_NAME

__all__ = ["publication", "refuse_existing"]


@contextmanager
def publication(destination: Path, *, force: bool = False, marker: str = MANIFEST_NAME) -> Iterator[Path]:
    """Give an empty directory to fill, and publish it as `destination` when the block ends without an error.

    The staging directory lies beside the destination, hence on the same filesystem, so that publishing is a rename.
    An error inside the block leaves the destination as it was; so does a process that dies. Whatever a dead process
    left behind is removed, and what it had set aside is put back, by the next publication to the same destination.

    Args:
        destination: the directory to publish.
        force: replace what is there already.
        marker: the file by which a directory is known that may be replaced.

    Raises:
        BundleError: the destination exists and `force` is off or the marker is not in it, or another process is
            writing there.
    """
    destination = destination.absolute()
    destination.parent.mkdir(parents=True, exist_ok=True)
    staging, aside = _sibling(destination, "partial"), _sibling(destination, "replaced")
    with _lock(destination):
        _recover(destination, staging, aside)
        refuse_existing(destination, force=force, marker=marker)
        staging.mkdir()
        try:
            yield staging
            _flush(staging)
            _swap(staging, destination, aside)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def refuse_existing(destination: Path, *, force: bool, marker: str = MANIFEST_NAME) -> None:
    """Refuse a destination that may not be written.

    Raises:
        BundleError: it exists and `force` is off, or it is something else than a bundle.
    """
    if not destination.exists():
        return
    if not (destination / marker).is_file():
        raise BundleError(
            f"{destination}: exists and is not a bundle, so it is never replaced",
            expected=f"no such path, or a directory with {marker}",
            fix="give another --out",
        )
    if not force:
        raise BundleError(
            f"{destination}: a bundle is there already", fix="give --force to replace it, or another --out"
        )


def _sibling(destination: Path, role: str) -> Path:
    return destination.with_name(f".{destination.name}.{role}")


@contextmanager
def _lock(destination: Path) -> Iterator[None]:
    try:
        with FileLock(_sibling(destination, "lock"), timeout=0):
            yield
    except Timeout as error:
        raise BundleError(
            f"{destination}: another process is writing this", fix="wait for it, or give another destination"
        ) from error


def _recover(destination: Path, staging: Path, aside: Path) -> None:
    shutil.rmtree(staging, ignore_errors=True)
    if aside.exists() and not destination.exists():
        aside.rename(destination)
    shutil.rmtree(aside, ignore_errors=True)


def _swap(staging: Path, destination: Path, aside: Path) -> None:
    if destination.exists():
        destination.rename(aside)
    staging.rename(destination)
    _flush_directory(destination.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _flush(directory: Path) -> None:
    for path in [*directory.rglob("*"), directory]:
        if path.is_dir():
            _flush_directory(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _flush_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
