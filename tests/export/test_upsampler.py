"""Tokens through pixels to tokens of another grid, by the graphs and by the numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bundles import VOCABULARY, vq_tensors
from golden_models import load_graph
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import read_vq
from mulo_export.graphs.upsampler import downsampler_graph, upsampler_graph
from mulo_export.graphs.vq import vq_decode_graph, vq_encode_graph
from mulo_export.reference.vq import ReferenceVq, bicubic, steepened
from numpy.typing import NDArray
from safetensors.numpy import save_file

WEIGHTS = "vq.safetensors"
Tensors = dict[str, NDArray[np.float32]]


def _tokens(*shape: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, shape)


def _file(folder: Path, change: Callable[[Tensors], object] = lambda _: None) -> TensorFile:
    tensors = vq_tensors(np.random.default_rng(0))
    change(tensors)
    save_file(tensors, folder / WEIGHTS, {"groups": "4"})
    return read_tensor_file(folder / WEIGHTS)


@pytest.fixture
def file(tmp_path: Path) -> TensorFile:
    return _file(tmp_path)


@pytest.mark.parametrize("steepness", [1.0, 3.0])
@pytest.mark.parametrize("ratio", [2, 3, 4])
def test_candidates_are_those_of_the_reference(file: TensorFile, ratio: int, steepness: float) -> None:
    config, token_ids = read_vq(file), _tokens(2, 4, 3)
    graph = upsampler_graph(config, file, WEIGHTS, ratio, steepness)
    with load_graph(graph, file.path.with_name("upsampler.onnx")) as engine:
        candidate_ids = engine.run_once({"token_ids": token_ids})["candidate_ids"]
    assert candidate_ids.shape == (2, 4 * ratio, 3 * ratio)
    assert len(np.unique(candidate_ids)) > 5
    assert np.array_equal(candidate_ids, ReferenceVq(config, file).upsample(token_ids, ratio, steepness))


@pytest.mark.parametrize("ratio", [2, 4])
def test_downsampled_tokens_are_those_of_the_reference(file: TensorFile, ratio: int) -> None:
    config, candidate_ids = read_vq(file), _tokens(2, 3 * ratio, 2 * ratio)
    graph = downsampler_graph(config, file, WEIGHTS, ratio)
    with load_graph(graph, file.path.with_name("downsampler.onnx")) as engine:
        token_ids = engine.run_once({"candidate_ids": candidate_ids})["token_ids"]
    assert token_ids.shape == (2, 3, 2)
    assert len(np.unique(token_ids)) > 2
    assert np.array_equal(token_ids, ReferenceVq(config, file).downsample(candidate_ids, ratio))


def test_one_graph_serves_every_grid_and_batch_and_a_batch_is_its_images_one_by_one(file: TensorFile) -> None:
    graph = upsampler_graph(read_vq(file), file, WEIGHTS, 2)
    with load_graph(graph, file.path.with_name("upsampler.onnx")) as engine:
        for rows in (1, 2, 5):
            together = _tokens(3, rows, 4, seed=rows)
            apart = [engine.run_once({"token_ids": together[n : n + 1]})["candidate_ids"] for n in range(3)]
            assert np.array_equal(engine.run_once({"token_ids": together})["candidate_ids"], np.concatenate(apart))


def test_the_image_is_clamped_before_it_is_enlarged(tmp_path: Path) -> None:
    def overdrive(tensors: Tensors) -> None:
        tensors["decoder.conv_out.weight"] *= 20

    file = _file(tmp_path, overdrive)
    config, token_ids = read_vq(file), _tokens(1, 4, 4)
    reference = ReferenceVq(config, file)
    unclamped = reference.encode(bicubic(reference.decode(token_ids), 2)).token_ids
    with load_graph(upsampler_graph(config, file, WEIGHTS, 2), tmp_path / "upsampler.onnx") as engine:
        candidate_ids = engine.run_once({"token_ids": token_ids})["candidate_ids"]
    assert np.array_equal(candidate_ids, reference.upsample(token_ids, 2))
    assert not np.array_equal(candidate_ids, unclamped)


def test_the_reference_enlarges_a_single_pixel_to_the_cubic_kernel_of_coefficient_minus_three_quarters() -> None:
    image = np.zeros((1, 1, 1, 7), np.float32)
    image[..., 3] = 64
    # The kernel at distances 1.75, 1.25, 0.75 and 0.25.
    half = [-2.25, -6.75, 16.75, 56.25]
    assert bicubic(image, 2)[0, 0, 0].tolist() == [0, 0, 0, *half, *half[::-1], 0, 0, 0]


def test_the_reference_makes_an_enlarged_edge_as_steep_as_before_in_its_place_and_leaves_what_is_even() -> None:
    image = np.repeat(np.array([[0.0, 1.0]], np.float32), [3, 3], axis=1)[None, None]
    enlarged = bicubic(image, 4)
    steep = steepened(enlarged, 3, 3.0)[0, 0, 0]
    assert ((enlarged > 0.05) & (enlarged < 0.95)).sum() == 4 * 4
    assert ((steep > 0.05) & (steep < 0.95)).sum() <= 2
    assert (steep > 0.5).tolist() == [False] * 12 + [True] * 12
    assert np.array_equal(steepened(np.full((1, 3, 4, 5), 0.25, np.float32), 3, 3.0), np.full((1, 3, 4, 5), 0.25))


def test_the_reference_repeats_edges_so_that_an_even_image_stays_even() -> None:
    assert bicubic(np.full((1, 3, 2, 5), 0.5, np.float32), 4) == pytest.approx(np.full((1, 3, 8, 20), 0.5))


def test_the_first_of_equally_near_codes_is_taken(tmp_path: Path) -> None:
    def duplicate(tensors: Tensors) -> None:
        codebook = tensors["quantize.embedding.weight"]
        # A power of two leaves the direction exactly as it is.
        codebook[VOCABULARY // 2 :] = 4 * codebook[: VOCABULARY // 2]

    file = _file(tmp_path, duplicate)
    image = np.random.default_rng(1).uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)
    with load_graph(vq_encode_graph(read_vq(file), file, WEIGHTS), tmp_path / "encode.onnx") as engine:
        token_ids = engine.run_once({"image": image})["token_ids"]
    assert token_ids.max() < VOCABULARY // 2
    assert len(np.unique(token_ids)) > 5


def test_a_latent_of_zeros_is_the_first_code(tmp_path: Path) -> None:
    def silence(tensors: Tensors) -> None:
        tensors["quant_conv.weight"][:] = 0
        tensors["quant_conv.bias"][:] = 0

    file = _file(tmp_path, silence)
    with load_graph(vq_encode_graph(read_vq(file), file, WEIGHTS), tmp_path / "encode.onnx") as engine:
        token_ids = engine.run_once({"image": np.zeros((1, 3, 8, 8), np.float32)})["token_ids"]
    assert np.array_equal(token_ids, np.zeros((1, 2, 2)))


def test_a_file_of_half_precision_is_computed_in_single_precision(tmp_path: Path) -> None:
    def halve(tensors: Tensors) -> None:
        tensors |= {name: value.astype(np.float16) for name, value in tensors.items()}  # type: ignore[misc]

    file = _file(tmp_path, halve)
    config, token_ids = read_vq(file), _tokens(1, 3, 3)
    with load_graph(vq_decode_graph(config, file, WEIGHTS), tmp_path / "decode.onnx") as engine:
        image = engine.run_once({"token_ids": token_ids})["image"]
    assert np.abs(image - ReferenceVq(config, file).decode(token_ids)).max() < 1e-5
