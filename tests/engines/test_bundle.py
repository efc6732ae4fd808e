"""A bundle on disk: opened whole and unaltered, wherever it lies, or refused by the name of the file at fault."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mulo_engines.bundle import Bundle, describe_file
from mulo_engines.errors import BundleError
from mulo_engines.manifest import read_manifest

FILES = ("feed.onnx", "prompt.safetensors", "weights/drafter.safetensors", "weights/target.safetensors")


def _remove(file: Path) -> None:
    file.unlink()


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _extend(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _replace_by_link(file: Path) -> None:
    copy = file.rename(file.with_name("elsewhere"))
    file.symlink_to(copy)


def _replace_by_broken_link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))


FAULTS = {
    _remove: "is missing",
    _truncate: "has another size",
    _extend: "has another size",
    _empty: "has another size",
    _replace_by_folder: "is not a file",
    _replace_by_link: "is a link",
    _replace_by_broken_link: "is a link",
}


@pytest.mark.parametrize("verify", ["full", "size"])
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_is_not_as_it_was_exported_is_refused_by_name(
    bundle_folder: Path, fault: Callable[[Path], None], path: str, verify: str
) -> None:
    fault(bundle_folder / path)
    with pytest.raises(BundleError, match=rf"(?s)'{re.escape(path)}' {FAULTS[fault]}.*fix: +copy the bundle again"):
        Bundle.open(bundle_folder, verify=verify)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", FILES)
def test_a_single_altered_bit_is_found_by_full_verification(bundle_folder: Path, path: str) -> None:
    content = bytearray((bundle_folder / path).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle_folder / path).write_bytes(content)
    Bundle.open(bundle_folder, verify="size")
    with pytest.raises(BundleError, match=rf"(?s)'{re.escape(path)}' was altered.*SHA-256"):
        Bundle.open(bundle_folder)


def test_a_folder_of_weights_that_is_a_link_is_refused(bundle_folder: Path, tmp_path: Path) -> None:
    elsewhere = (bundle_folder / "weights").rename(tmp_path / "elsewhere")
    (bundle_folder / "weights").symlink_to(elsewhere)
    with pytest.raises(BundleError, match=r"'weights/\w+.safetensors' is a link or lies behind one"):
        Bundle.open(bundle_folder)


def test_a_fault_is_found_before_any_library_is_loaded(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    Bundle.open(bundle_folder)
    _truncate(bundle_folder / "feed.onnx")
    with pytest.raises(BundleError, match=r"'feed\.onnx' has another size"):
        Bundle.open(bundle_folder)


def test_a_bundle_opens_wherever_it_is_moved(bundle_folder: Path, tmp_path: Path) -> None:
    before = Bundle.open(bundle_folder)
    moved = tmp_path / "another place" / "büchse"
    moved.parent.mkdir()
    bundle_folder.rename(moved)
    after = Bundle.open(moved)
    assert after.manifest == before.manifest
    assert after.graph("feed") == moved / "feed.onnx"


def test_a_bundle_that_is_read_only_opens(bundle_folder: Path) -> None:
    for path in [*bundle_folder.rglob("*"), bundle_folder]:
        path.chmod(0o555)
    assert Bundle.open(bundle_folder).manifest.ratio == 2
    for path in [bundle_folder, bundle_folder / "weights"]:
        path.chmod(0o755)


def test_a_link_to_the_bundle_itself_is_followed(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(bundle_folder)
    assert Bundle.open(tmp_path / "latest").path == bundle_folder


def test_files_beside_those_of_the_manifest_are_left_alone(bundle_folder: Path) -> None:
    (bundle_folder / "engines").mkdir()
    (bundle_folder / "README.md").write_text("mine")
    Bundle.open(bundle_folder)


def test_a_relative_path_is_made_absolute(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle_folder.parent)
    assert Bundle.open(Path("bundle")).graph("feed").is_absolute()


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"(?s)no such folder.*mulo-export"):
        Bundle.open(tmp_path / "nowhere")
    with pytest.raises(BundleError, match=r"bundle.json: no such file"):
        Bundle.open(tmp_path)


def test_a_name_that_the_manifest_does_not_list_is_refused(bundle_folder: Path) -> None:
    bundle = Bundle.open(bundle_folder)
    (bundle_folder / "unlisted.onnx").write_bytes((bundle_folder / "feed.onnx").read_bytes())
    with pytest.raises(BundleError, match=r"(?s)no graph 'unlisted'.*feed, target"):
        bundle.graph("unlisted")
    for path in ("unlisted.onnx", "../bundle/feed.onnx", "bundle.json"):
        with pytest.raises(BundleError, match="is not a file of the bundle"):
            bundle.file(path)
    assert bundle.file("prompt.safetensors") == bundle_folder / "prompt.safetensors"


def test_the_record_of_a_file_is_what_verification_compares(bundle_folder: Path, tmp_path: Path) -> None:
    shutil.copy(bundle_folder / "feed.onnx", tmp_path)
    assert describe_file(tmp_path, "feed.onnx") == read_manifest(bundle_folder / "bundle.json").files[0]
