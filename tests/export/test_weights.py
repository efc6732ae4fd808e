from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.hashing import hash_file
from mulo_export.weights import convert_weights, copy_weights
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file


def _ignore(count: int) -> None:
    del count


def _checkpoint(path: Path, matrix: NDArray[np.float32]) -> Path:
    save_file({"matrix": matrix, "steps": np.arange(3)}, path, {"grid": "4"})
    return path


def _matrix() -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)


def test_a_copy_has_the_same_bytes_and_reports_every_one(tmp_path: Path) -> None:
    source = tmp_path / "source"
    content = np.random.default_rng(0).bytes(20 * 2**20 + 17)
    source.write_bytes(content)
    counts: list[int] = []
    written = copy_weights(source, tmp_path / "copy", counts.append)
    assert (tmp_path / "copy").read_bytes() == content
    assert written.size == sum(counts) == len(content)
    assert written.sha256 == hashlib.sha256(content).hexdigest()


def test_filesystems_that_cannot_share_blocks_get_a_plain_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "cross-device")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    (tmp_path / "source").write_bytes(b"weights" * 1000)
    written = copy_weights(tmp_path / "source", tmp_path / "copy", _ignore)
    assert (tmp_path / "copy").read_bytes() == b"weights" * 1000
    assert written == hash_file(tmp_path / "source")


@pytest.mark.parametrize(("dtype", "error"), [("F32", 0), ("F16", 2.0**-11), ("BF16", 2.0**-8)])
def test_conversion_rounds_to_nearest_and_keeps_the_rest(tmp_path: Path, dtype: str, error: float) -> None:
    matrix = _matrix()
    source = read_tensor_file(_checkpoint(tmp_path / "source", matrix))
    written = convert_weights(source, tmp_path / "converted", dtype, _ignore)
    converted = read_tensor_file(tmp_path / "converted")
    assert converted.tensors["matrix"].dtype == dtype
    assert np.all(np.abs(converted.array("matrix").astype(np.float64) - matrix) <= error * np.abs(matrix))
    assert np.array_equal(converted.array("steps"), np.arange(3))
    assert converted.metadata == {"grid": "4"}
    assert written == hash_file(tmp_path / "converted")


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_a_tensor_of_many_pieces_is_converted_in_order(tmp_path: Path, dtype: str) -> None:
    matrix = np.random.default_rng(0).standard_normal((1003, 1001), np.float32)
    convert_weights(read_tensor_file(_checkpoint(tmp_path / "exact", matrix)), tmp_path / "source", dtype, _ignore)
    source, counts = read_tensor_file(tmp_path / "source"), list[int]()
    written = convert_weights(source, tmp_path / "converted", "F16", counts.append)
    assert len(counts) > 2
    assert sum(counts) == 2 * matrix.size + 3 * 8
    assert written == hash_file(tmp_path / "converted")
    converted = read_tensor_file(tmp_path / "converted").array("matrix")
    assert np.array_equal(converted, source.array("matrix").astype(np.float16))


def test_a_converted_file_is_read_by_the_safetensors_library(tmp_path: Path) -> None:
    source = read_tensor_file(_checkpoint(tmp_path / "source", _matrix()))
    convert_weights(source, tmp_path / "converted", "F16", _ignore)
    assert np.array_equal(load_file(tmp_path / "converted")["matrix"], _matrix().astype(np.float16))


def test_bfloat16_ties_go_to_even(tmp_path: Path) -> None:
    halfway = np.array([[1 + 2.0**-8, 1 + 3 * 2.0**-8]], np.float32)
    source = read_tensor_file(_checkpoint(tmp_path / "source", halfway))
    convert_weights(source, tmp_path / "converted", "BF16", _ignore)
    assert read_tensor_file(tmp_path / "converted").array("matrix").tolist() == [[1.0, 1 + 2.0**-6]]


def test_bfloat16_checkpoints_widen_exactly(tmp_path: Path) -> None:
    source = read_tensor_file(_checkpoint(tmp_path / "source", _matrix()))
    convert_weights(source, tmp_path / "bf16", "BF16", _ignore)
    narrow = read_tensor_file(tmp_path / "bf16")
    convert_weights(narrow, tmp_path / "fp32", "F32", _ignore)
    assert np.array_equal(read_tensor_file(tmp_path / "fp32").array("matrix"), narrow.array("matrix"))


@pytest.mark.parametrize(
    ("dtype", "value"), [("F16", 70000.0), ("F16", np.inf), ("F16", np.nan), ("BF16", np.nan), ("BF16", np.inf)]
)
def test_a_value_that_the_type_cannot_hold_is_refused_by_name(tmp_path: Path, dtype: str, value: float) -> None:
    matrix = _matrix()
    matrix[3, 2] = value
    source = read_tensor_file(_checkpoint(tmp_path / "source", matrix))
    with pytest.raises(CheckpointError, match="'matrix'"):
        convert_weights(source, tmp_path / "converted", dtype, _ignore)
