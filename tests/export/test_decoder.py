"""From tokens to pixels, and how a value between two levels is rounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import VOCABULARY, vq_tensors
from golden_models import load_graph
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import read_vq
from mulo_export.graphs.decoder import ROUNDINGS, decoder_graph
from mulo_export.reference.vq import ReferenceVq
from numpy.typing import NDArray
from safetensors.numpy import save_file

WEIGHTS = "vq.safetensors"


def _painting(folder: Path, colour: tuple[float, float, float]) -> TensorFile:
    """A tokenizer whose every image is of one colour, given in -1..1."""
    tensors = vq_tensors(np.random.default_rng(0))
    tensors["decoder.conv_out.weight"][:] = 0
    tensors["decoder.conv_out.bias"][:] = colour
    save_file(tensors, folder / WEIGHTS, {"groups": "4"})
    return read_tensor_file(folder / WEIGHTS)


def _pixels(file: TensorFile, rounding: str, token_ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    graph = decoder_graph(read_vq(file), file, WEIGHTS, rounding)
    with load_graph(graph, file.path.with_name("decoder.onnx")) as engine:
        return engine.run_once({"token_ids": token_ids})["image"]


def _level(fraction: float) -> float:
    """The value in -1..1 that lies at `fraction` of 0..1."""
    return 2 * fraction - 1


@pytest.mark.parametrize(("rounding", "level"), [("half_up", 255), ("truncate", 254)])
def test_a_value_just_below_white_is_white_only_where_it_is_rounded(tmp_path: Path, rounding: str, level: int) -> None:
    file = _painting(tmp_path, (_level(0.999),) * 3)
    assert np.unique(_pixels(file, rounding, np.zeros((1, 2, 2), np.int64))).tolist() == [level]


@pytest.mark.parametrize("rounding", sorted(ROUNDINGS))
def test_values_outside_the_range_are_black_and_white_and_never_wrap(tmp_path: Path, rounding: str) -> None:
    file = _painting(tmp_path, (-3.0, 1.0, 40.0))
    image = _pixels(file, rounding, np.zeros((1, 2, 3), np.int64))
    assert image.shape == (1, 8, 12, 3)
    assert (image == np.array([0, 255, 255], np.uint8)).all()


@pytest.mark.parametrize(("rounding", "levels"), [("half_up", [101, 101, 100]), ("truncate", [100, 101, 100])])
def test_a_level_and_a_half_goes_up_or_down(tmp_path: Path, rounding: str, levels: list[int]) -> None:
    fractions = np.array([100.51, 101.01, 100.49]) / 255
    file = _painting(tmp_path, tuple(map(_level, fractions)))
    assert _pixels(file, rounding, np.zeros((1, 1, 1), np.int64))[0, 0, 0].tolist() == levels


@pytest.mark.parametrize("rounding", sorted(ROUNDINGS))
def test_pixels_are_those_of_the_reference(tmp_path: Path, rounding: str) -> None:
    save_file(vq_tensors(np.random.default_rng(0)), tmp_path / WEIGHTS, {"groups": "4"})
    file = read_tensor_file(tmp_path / WEIGHTS)
    token_ids = np.random.default_rng(1).integers(0, VOCABULARY, (2, 5, 3))
    expected = ReferenceVq(read_vq(file), file).pixels(token_ids, rounding)
    found = _pixels(file, rounding, token_ids)
    assert found.dtype == np.uint8
    difference = np.abs(found.astype(int) - expected)
    # A sum in another order may put a value that lies on a level on its other side.
    assert difference.max() <= 1
    assert np.count_nonzero(difference) < 0.001 * difference.size
    assert len(np.unique(expected)) > 50
