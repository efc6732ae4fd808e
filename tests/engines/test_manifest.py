"""bundle.json: whatever is wrong with it is refused by name, before any file that it lists is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mulo_engines.errors import BundleError
from mulo_engines.manifest import Manifest, read_manifest
from pydantic import ValidationError

Reseal = Callable[[Path, dict[str, Any]], None]
Place = tuple[str | int, ...]

ESCAPES = [
    "../feed.onnx", "/etc/passwd", "weights/../../x", "./feed.onnx", "weights//x", "weights/", "",
    "weights\\x", "C:/x", "x\0y", "bundle.json",
]  # fmt: skip
SEALED = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@pytest.fixture
def manifest_file(bundle_folder: Path) -> Path:
    """The manifest alone: the files that it lists are gone, so that nothing but itself can be complained about."""
    for path in sorted(bundle_folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.name != "bundle.json":
            path.unlink()
    return bundle_folder / "bundle.json"


def _places(content: Any, place: Place = ()) -> Iterator[Place]:
    """Every field and every element, the innermost first."""
    children = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in children:
        yield from _places(value, (*place, key))
    if place:
        yield place


def _at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def _replaced(content: dict[str, Any], place: Place, value: object) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(content))
    _at(copy, place[:-1])[place[-1]] = value
    return copy


def _altered(value: object) -> object:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("1" if value[-1] != "1" else "0")
    if isinstance(value, dict):
        return dict(list(value.items())[:-1])
    return value[:-1] if isinstance(value, list) and value else 1


def test_what_was_written_is_read(manifest_file: Path) -> None:
    manifest = read_manifest(manifest_file)
    assert manifest.family == "llamagen-t2i"
    assert manifest.mulo == {"threshold": 0.1, "rule": "local", "radius": 1, "anchored": True}
    assert [type(value) for value in manifest.mulo.values()] == [float, str, int, bool]


def test_every_field_that_is_altered_is_refused(manifest_file: Path) -> None:
    original = json.loads(manifest_file.read_text())
    places = list(_places(original))
    assert len(places) >= 80
    for place in places:
        manifest_file.write_text(json.dumps(_replaced(original, place, _altered(_at(original, place)))))
        with pytest.raises(BundleError, match=re.escape(str(manifest_file))):
            read_manifest(manifest_file)


def test_every_field_of_a_wrong_type_is_named(manifest_file: Path, reseal: Reseal) -> None:
    original = json.loads(manifest_file.read_text())
    wrong = {"unexpected": [{}]}
    for place in _places(original):
        if place[0] == "manifest_sha256":
            continue
        reseal(manifest_file.parent, _replaced(original, place, wrong))
        with pytest.raises(BundleError, match=re.escape(f"field '{'.'.join(map(str, place))}")):
            read_manifest(manifest_file)


def test_every_required_field_that_is_missing_is_named(manifest_file: Path, reseal: Reseal) -> None:
    original = json.loads(manifest_file.read_text())
    required = [name for name, field in Manifest.model_fields.items() if field.is_required()]
    assert len(required) == 15
    for name in required:
        reseal(manifest_file.parent, {key: value for key, value in original.items() if key != name})
        with pytest.raises(BundleError, match=rf"field '{name}'"):
            read_manifest(manifest_file)


def test_the_seal_ignores_order_and_spacing(manifest_file: Path) -> None:
    original = json.loads(manifest_file.read_text())
    before = read_manifest(manifest_file)
    manifest_file.write_text(json.dumps(dict(reversed(original.items())), indent=7))
    assert read_manifest(manifest_file) == before


def test_a_newer_schema_asks_for_a_newer_mulo(manifest_file: Path, reseal: Reseal) -> None:
    original = json.loads(manifest_file.read_text())
    reseal(manifest_file.parent, {**original, "schema_version": 4, "a_field_of_the_future": 1})
    with pytest.raises(
        BundleError, match=r"(?s)'schema_version' is newer.*found: +4.*expected: 3.*pip install --upgrade"
    ):
        read_manifest(manifest_file)


@pytest.mark.parametrize(("version", "later"), [(1, {"canary", "decoder_witness"}), (2, {"decoder_witness"})])
def test_a_bundle_of_an_older_schema_opens_as_it_is(
    manifest_file: Path, reseal: Reseal, version: int, later: set[str]
) -> None:
    current, original = read_manifest(manifest_file), json.loads(manifest_file.read_text())
    assert later < original.keys()
    older = {key: value for key, value in original.items() if key not in later} | {"schema_version": version}
    del older["prompt"]["examples"]
    reseal(manifest_file.parent, older)
    assert read_manifest(manifest_file) == current
    assert not current.decoder_witness


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("place", [("files", 0, "path"), ("graphs", 0, "file"), ("prompt", "file")], ids=str)
def test_a_path_that_leaves_the_bundle_is_refused(manifest_file: Path, reseal: Reseal, path: str, place: Place) -> None:
    original = json.loads(manifest_file.read_text())
    reseal(manifest_file.parent, _replaced(original, place, path))
    with pytest.raises(BundleError, match=r"stays inside|at least 1|not the manifest|files that list"):
        read_manifest(manifest_file)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("target", "rows"), 24, "ratio times the drafter's"),
        (("ratio",), 4, "ratio times the drafter's"),
        (("pool_k_max",), 513, "at most the vocabulary"),
        (("parity",), [], "parity_skipped where there is none"),
        (("parity_skipped",), True, "parity_skipped where there is none"),
        (("condition",), {"kind": "class", "length": 1, "classes": 1000}, "prompt only with"),
        (("condition", "feature_size"), None, "feature_size for kind 'text'"),
        (("condition", "codes"), 65536, "codes for kind 'ta_tok'"),
        (("condition", "classes"), 10, "classes for kind 'class'"),
        (("graphs", 1, "name"), "feed", "unlike 'feed'"),
        (("files", 1, "path"), "feed.onnx", "unlike 'feed.onnx'"),
        (("graphs", 1, "weights"), ["weights/other.safetensors"], "weights/other.safetensors"),
        (("prompt", "file"), "words.safetensors", "words.safetensors"),
        (("files", 0, "sha256"), "f" * 63, "should match pattern"),
        (("files", 0, "size"), -1, "greater than or equal to 0"),
        (("files", 0, "size"), 2**80, "less than or equal"),
        (("vocabulary",), 10**30, "less than or equal"),
        (("vocabulary",), "512", "valid integer"),
        (("parity", 0, "value"), float("nan"), "finite number"),
        (("drafter", "cache_dtype"), "int8", "'float32', 'float16' or 'bfloat16'"),
    ],
    ids=str,
)
def test_fields_that_contradict_each_other_are_refused(
    manifest_file: Path, reseal: Reseal, place: Place, value: object, message: str
) -> None:
    original = json.loads(manifest_file.read_text())
    reseal(manifest_file.parent, _replaced(original, place, value))
    with pytest.raises(BundleError, match=re.escape(message)):
        read_manifest(manifest_file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JSON file"),
        (b"<html>", "not a JSON file"),
        (b"\xff\xfe\x00", "not a JSON file"),
        (b"[" * 100_000, "not a JSON file"),
        (b"[]", "not a manifest"),
        (b'"text"', "not a manifest"),
        (b"{}", "field 'schema_version'"),
        (b'{"schema_version": 1}', "field 'family'"),
        (b'{"schema_version": 0}', "field 'schema_version'"),
        (b" " * (4 * 2**20 + 1), "too large"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(manifest_file: Path, content: bytes, message: str) -> None:
    manifest_file.write_bytes(content)
    with pytest.raises(BundleError, match=message):
        read_manifest(manifest_file)


def test_a_manifest_that_is_missing_or_a_link_is_refused(manifest_file: Path) -> None:
    elsewhere = manifest_file.rename(manifest_file.with_name("elsewhere.json"))
    with pytest.raises(BundleError, match="no such file"):
        read_manifest(manifest_file)
    manifest_file.symlink_to(elsewhere)
    with pytest.raises(BundleError, match="no such file"):
        read_manifest(manifest_file)


@SEALED
@given(data=st.data())
def test_damaged_bytes_are_refused_or_change_nothing(manifest_file: Path, data: st.DataObject) -> None:
    backup = manifest_file.with_suffix(".original")
    if not backup.exists():
        manifest_file.rename(backup)
    original = backup.read_bytes()
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 40)))
    manifest_file.write_bytes(original[:start] + data.draw(st.binary(max_size=20)) + original[end:])
    try:
        manifest = read_manifest(manifest_file)
    except BundleError:
        return
    assert manifest == read_manifest(backup)


@SEALED
@given(content=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(list(Manifest.model_fields)) | st.text(), inner),
))  # fmt: skip
def test_json_of_any_shape_is_refused(manifest_file: Path, reseal: Reseal, content: object) -> None:
    manifest_file.write_text(json.dumps(content))
    with pytest.raises(BundleError):
        read_manifest(manifest_file)
    if isinstance(content, dict):
        reseal(manifest_file.parent, content)
        with pytest.raises(BundleError):
            read_manifest(manifest_file)


@SEALED
@given(data=st.data())
def test_a_sealed_manifest_with_one_odd_value_never_fails_otherwise(
    manifest_file: Path, reseal: Reseal, data: st.DataObject
) -> None:
    backup = manifest_file.with_suffix(".original")
    if not backup.exists():
        backup.write_bytes(manifest_file.read_bytes())
    original = json.loads(backup.read_text())
    place = data.draw(st.sampled_from(list(_places(original))))
    value = data.draw(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([]) | st.just({}))
    reseal(manifest_file.parent, _replaced(original, place, value))
    try:
        read_manifest(manifest_file)
    except BundleError as error:
        assert str(manifest_file) in str(error)  # noqa: PT017


def test_a_manifest_cannot_be_changed_after_it_was_read(manifest_file: Path) -> None:
    manifest = read_manifest(manifest_file)
    with pytest.raises(ValidationError, match="frozen"):
        manifest.family = "other"  # type: ignore[misc]
