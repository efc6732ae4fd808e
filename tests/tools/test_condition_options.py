"""Conditions as users give them; above all, files that are not what they should be."""

from __future__ import annotations

import zipfile
from pathlib import Path

import click
import numpy as np
import pytest
from mulo_engines.errors import RequestError
from mulo_runtime import ClassId, Prompt, TaTokCodes, TextFeatures
from mulo_tools.condition_options import chosen_condition, read_condition

FEATURES = np.arange(6, dtype=np.float32).reshape(3, 2)
MASK = np.array([False, True, True])


def test_one_of_the_three_is_taken() -> None:
    assert chosen_condition("a red circle", None, None) == Prompt("a red circle")
    assert chosen_condition(None, 0, None) == ClassId(0)


@pytest.mark.parametrize("given", [(None, None, None), ("a circle", 3, None), ("a circle", None, Path("x.npz"))])
def test_none_or_several_are_wrong_usage(given: tuple[str | None, int | None, Path | None]) -> None:
    with pytest.raises(click.UsageError, match="one of --prompt, --class-id and --condition"):
        chosen_condition(*given)


@pytest.mark.parametrize("features", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("mask", [np.bool_, np.int64, np.uint8])
def test_features_of_any_float_type_and_masks_of_bits_are_read(tmp_path: Path, features: type, mask: type) -> None:
    np.savez(tmp_path / "c.npz", features=FEATURES.astype(features), mask=MASK.astype(mask))
    read = read_condition(tmp_path / "c.npz")
    assert isinstance(read, TextFeatures)
    assert (read.features.dtype, read.mask.dtype) == (np.float32, np.bool_)
    np.testing.assert_array_equal(read.features, FEATURES)
    np.testing.assert_array_equal(read.mask, MASK)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint16])
def test_codes_of_any_integer_type_are_read(tmp_path: Path, dtype: type) -> None:
    np.savez(tmp_path / "c.npz", codes=np.array([3, 65535, 0], dtype))
    read = read_condition(tmp_path / "c.npz")
    assert isinstance(read, TaTokCodes)
    assert read.codes.dtype == np.int64
    assert read.codes.tolist() == [3, 65535, 0]


def write_truncated(path: Path) -> None:
    np.savez(path, features=FEATURES, mask=MASK)
    path.write_bytes(path.read_bytes()[:-40])


def write_damaged(path: Path) -> None:
    np.savez_compressed(path, features=FEATURES, mask=MASK)
    content = bytearray(path.read_bytes())
    content[60:80] = bytes(20)
    path.write_bytes(content)


def write_pickled(path: Path) -> None:
    np.savez(path, features=np.array([{"a": 1}], dtype=object), mask=MASK)


def write_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, FEATURES)


def write_other_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", "no array")
        archive.writestr("mask.npy", "no array")


@pytest.mark.parametrize(
    "write",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"<html>not found</html>"),
        lambda path: np.savez(path, features=FEATURES),
        lambda path: np.savez(path, features=FEATURES.astype(np.int64), mask=MASK),
        lambda path: np.savez(path, features=FEATURES, mask=MASK * 0.5),
        lambda path: np.savez(path, features=FEATURES, mask=np.array([0, 1, 2])),
        lambda path: np.savez(path, codes=np.array([1.0, 2.0])),
        lambda path: np.savez(path, codes=np.ones((2, 2), np.int64)),
        write_truncated,
        write_damaged,
        write_pickled,
        write_array,
        write_other_archive,
    ],
    ids=[
        "missing",
        "a folder",
        "empty",
        "a web page",
        "no mask",
        "integer features",
        "float mask",
        "mask of more than bits",
        "float codes",
        "codes of two dimensions",
        "truncated",
        "damaged",
        "pickled",
        "npy",
        "zip of something else",
    ],
)  # fmt: skip
def test_a_file_that_is_something_else_is_refused_by_name(tmp_path: Path, write: object) -> None:
    path = tmp_path / "c.npz"
    write(path)  # type: ignore[operator]
    with pytest.raises(RequestError) as error:
        read_condition(path)
    assert f"{path}: the condition is refused\n  found:" in str(error.value)
    assert "numpy.savez(path, features=..., mask=...)" in str(error.value)
