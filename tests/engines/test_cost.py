"""The work of a pass is counted from the bundle alone: bytes that must be moved, and products of matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import VOCABULARY, tiny_bundle
from conftest import MakeBundle
from mulo_engines.bundle import Bundle
from mulo_engines.cost import Cost, ModelCost, PassSize, graph_cost
from mulo_engines.errors import BundleError
from mulo_engines.stored_tensors import stored_tensors
from mulo_export.precision import Precision
from mulo_tools.synthetic_vq import VQ16, write_random_tokenizer
from safetensors.numpy import save_file

LAYERS, DIM, FFN = 2, 32, 48
LINEAR = LAYERS * (4 * DIM**2 + 3 * DIM * FFN)
NORMS = LAYERS * 2 * DIM
OUTPUT = VOCABULARY * DIM
SIZE = PassSize(batch=2, queries=3, slots=40, logits=1)


@pytest.fixture
def target(shared_bundle: MakeBundle) -> ModelCost:
    return ModelCost.of(Bundle.open(shared_bundle()), "target")


def test_a_pass_reads_every_weight_of_the_layers_and_the_output_once(target: ModelCost) -> None:
    assert target.cost(SIZE).weight_bytes == 4 * (LINEAR + NORMS + OUTPUT)


def test_a_pass_reads_the_bound_cache_and_writes_its_queries(target: ModelCost) -> None:
    cost = target.cost(SIZE)
    assert cost.cache_read_bytes == 2 * LAYERS * 2 * DIM * 40 * 4
    assert cost.cache_written_bytes == 2 * LAYERS * 2 * DIM * 3 * 4
    assert cost.other_bytes == 4 * (2 * 3 * DIM + 2 * VOCABULARY)


def test_products_are_counted_per_query_per_logit_and_per_attended_slot(target: ModelCost) -> None:
    attention = 2 * 2 * LAYERS * DIM * 40 * (2 * 3)
    assert target.cost(SIZE).flop == 2 * LINEAR * (2 * 3) + 2 * OUTPUT * 2 + attention


def test_a_head_has_one_layer_and_a_joining_matrix_and_shares_the_output(tmp_path: Path) -> None:
    head = ModelCost.of(Bundle.open(tiny_bundle(tmp_path, eagle=True)), "eagle")
    assert head.layers[1] == LINEAR // LAYERS + 2 * DIM**2
    assert head.output[1] == OUTPUT


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.INT8, Precision.INT4, Precision.INT8_TENSORRT])
def test_the_products_of_a_narrower_bundle_are_the_same_and_its_bytes_fewer(
    tmp_path: Path, target: ModelCost, precision: Precision
) -> None:
    narrow = ModelCost.of(Bundle.open(tiny_bundle(tmp_path, precision=precision)), "target").cost(SIZE)
    wide = target.cost(SIZE)
    assert narrow.flop == wide.flop
    assert narrow.weight_bytes < 0.6 * wide.weight_bytes


def test_the_least_time_is_that_of_the_slower_of_moving_and_computing() -> None:
    cost = Cost(weight_bytes=100, cache_read_bytes=20, cache_written_bytes=20, other_bytes=10, flop=3000)
    assert cost.bytes == 150
    assert cost.seconds(bytes_per_second=50, flop_per_second=3000) == 3
    assert cost.seconds(bytes_per_second=150, flop_per_second=300) == 10


def test_a_graph_without_weights_moves_its_inputs_and_outputs(shared_bundle: MakeBundle) -> None:
    cost = graph_cost(Bundle.open(shared_bundle()), "sampler", {"B": 2, "N": 1, "R": 5})
    assert cost == Cost(0, 0, 0, 2 * 5 * VOCABULARY * 4 + 5 * (2 * 8 + 3 * 4) + 3 * 4 + 2 * 8, 0)


def test_the_published_tokenizer_computes_what_is_known_of_it(tmp_path: Path) -> None:
    """A convolution is as many products as its weight has numbers, at every position of its output."""
    bundle = Bundle.open(tiny_bundle(tmp_path))
    sizes = {"N": 1, "h": 16, "w": 16, "H": 256, "W": 256}
    (tmp_path / "bundle/weights/vq.safetensors").unlink()
    write_random_tokenizer(tmp_path / "bundle/weights/vq.safetensors", VQ16)
    decoded = graph_cost(bundle, "decoder", sizes)
    last = 2 * 256 * 256 * 9 * (128 * 3 + 2 * 3 * 128 * 128)
    assert last < decoded.flop < 4 * last
    assert decoded.weight_bytes == pytest.approx(4 * 42.4e6, rel=0.02)


def test_upsampling_decodes_the_small_grid_and_encodes_the_large_one(shared_bundle: MakeBundle) -> None:
    bundle = Bundle.open(shared_bundle())
    up = graph_cost(bundle, "upsampler", {"N": 1, "h": 4, "w": 4, "rh": 8, "rw": 8})
    down = graph_cost(bundle, "downsampler", {"N": 1, "h": 4, "w": 4, "rh": 8, "rw": 8})
    small = graph_cost(bundle, "decoder", {"N": 1, "h": 4, "w": 4, "H": 16, "W": 16})
    large = graph_cost(bundle, "decoder", {"N": 1, "h": 8, "w": 8, "H": 32, "W": 32})
    assert large.flop == 4 * small.flop
    assert up.flop - small.flop == 4 * (down.flop - large.flop)


def test_weights_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    with pytest.raises(BundleError, match="cannot be read"):
        stored_tensors(tmp_path / "w.safetensors")
    save_file({"w": np.zeros(3, np.uint32)}, tmp_path / "u.safetensors")
    with pytest.raises(BundleError, match="not known"):
        stored_tensors(tmp_path / "u.safetensors")
