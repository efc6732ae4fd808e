"""From tokens to pixels, and how a value between two levels is rounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import VOCABULARY, vq_tensors
from golden_models import load_graph
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import read_vq
from mulo_export.graphs.decoder import ROUNDINGS, WITNESS_SCALE, decoder_graph
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


def _witness(file: TensorFile, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
    graph = decoder_graph(read_vq(file), file, WEIGHTS, "half_up")
    with load_graph(graph, file.path.with_name("decoder.onnx")) as engine:
        return engine.run_once({"token_ids": token_ids})["witness"]


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


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("channel", range(3))
def test_the_witness_of_values_that_are_not_finite_is_not(tmp_path: Path, value: float, channel: int) -> None:
    colour = [0.0, 0.5, -0.5]
    colour[channel] = value
    file = _painting(tmp_path, (colour[0], colour[1], colour[2]))
    assert not np.isfinite(_witness(file, np.zeros((2, 2, 2), np.int64))).any()


def test_infinities_of_both_signs_do_not_cancel(tmp_path: Path) -> None:
    file = _painting(tmp_path, (np.inf, -np.inf, 0.0))
    assert not np.isfinite(_witness(file, np.zeros((1, 2, 2), np.int64))).any()


def test_the_witness_of_the_largest_finite_values_is_finite(tmp_path: Path) -> None:
    largest = float(np.finfo(np.float32).max)
    file = _painting(tmp_path, (largest, -largest, largest))
    assert np.isfinite(_witness(file, np.zeros((1, 16, 16), np.int64))).all()


def test_an_image_that_is_not_finite_leaves_the_witness_of_the_others_as_it_is(tmp_path: Path) -> None:
    tensors = vq_tensors(np.random.default_rng(0))
    tensors["quantize.embedding.weight"][7] = np.nan
    save_file(tensors, tmp_path / WEIGHTS, {"groups": "4"})
    token_ids = np.zeros((3, 2, 2), np.int64)
    token_ids[1, 1, 0] = 7
    witness = _witness(read_tensor_file(tmp_path / WEIGHTS), token_ids)
    assert np.isfinite(witness).tolist() == [True, False, True]


def test_the_witness_is_the_sum_of_the_magnitudes_before_they_are_clipped(tmp_path: Path) -> None:
    tensors = vq_tensors(np.random.default_rng(0))
    tensors["decoder.conv_out.weight"] *= 20
    save_file(tensors, tmp_path / WEIGHTS, {"groups": "4"})
    file = read_tensor_file(tmp_path / WEIGHTS)
    token_ids = np.random.default_rng(1).integers(0, VOCABULARY, (2, 5, 3))
    raw = np.abs(ReferenceVq(read_vq(file), file).decode(token_ids))
    assert raw.max() > 2
    np.testing.assert_allclose(_witness(file, token_ids), raw.sum(axis=(1, 2, 3)) * WITNESS_SCALE, rtol=1e-4)
