from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.codebook import neighbour_table, normalised_codebook
from numpy.typing import NDArray
from safetensors.numpy import save_file


def _directions(count: int, seed: int = 0) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    directions: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return directions


def test_rows_are_divided_by_their_lengths_and_a_zero_row_stays_zero(tmp_path: Path) -> None:
    rows = np.array([[3, 4], [0, 0], [0, -2]], np.float32)
    save_file({"quantize.embedding.weight": rows}, tmp_path / "vq.safetensors")
    codebook = normalised_codebook(read_tensor_file(tmp_path / "vq.safetensors"))
    assert codebook == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0, -1]]))
    assert codebook.dtype == np.float32


@pytest.mark.parametrize("count", [1, 7, 300])
def test_neighbours_are_those_of_largest_cosine_in_order(count: int) -> None:
    codebook = _directions(300)
    cosines = codebook @ codebook.T
    np.fill_diagonal(cosines, 2)
    assert np.array_equal(neighbour_table(codebook, count), np.argsort(-cosines, axis=1)[:, :count])


def test_a_code_comes_first_among_its_own_duplicates_and_those_follow_by_index() -> None:
    codebook = _directions(10)
    codebook[[2, 5, 8]] = codebook[0]
    table = neighbour_table(codebook, 4)
    assert table[[0, 2, 5, 8]].tolist() == [[0, 2, 5, 8], [2, 0, 5, 8], [5, 0, 2, 8], [8, 0, 2, 5]]


def test_a_codebook_longer_than_a_block_of_rows_has_every_code_first_in_its_own_row() -> None:
    table = neighbour_table(_directions(2500), 3)
    assert np.array_equal(table[:, 0], np.arange(2500))


def test_no_more_neighbours_are_given_than_there_are_codes() -> None:
    assert np.array_equal(np.sort(neighbour_table(_directions(6), 100), axis=1), np.tile(np.arange(6), (6, 1)))
