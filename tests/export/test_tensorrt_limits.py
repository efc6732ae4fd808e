"""What NVIDIA's parser or builder refused, or took minutes over, is in none of these graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from bundles import tiny_bundle, tiny_options
from mulo_export.bundle_writer import write_bundle
from mulo_export.graphs.builder import Model
from mulo_export.graphs.sampler import sampler_graph
from mulo_export.precision import Precision
from tar_checkpoints import tar_checkpoints, tar_sources

REFUSED = {
    *("NonZero", "Multinomial", "Bernoulli", "Compress", "Unique", "BitShift"),
    *("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"),
    *("SequenceAt", "SequenceConstruct", "SplitToSequence", "ConcatFromSequence", "Optional", "OptionalGetElement"),
}
CONTROL_FLOW = {"If", "Loop", "Scan"}
LONGEST_SORT = 3840
# ONNX's numbers of these types.
UINT8, INT64 = 2, 7


def _sampler(name: str) -> Model:
    """A sampler for the largest published vocabulary."""
    return sampler_graph(np.zeros((16384, 4), np.int64), full=name == "sampler_full").model()


def _of_bundle(bundle: Path) -> dict[str, Model]:
    paths = (path for path in bundle.glob("*.onnx") if not path.stem.startswith("sampler"))
    return {path.stem: onnx.load(path, load_external_data=False) for path in paths}


def _tar_bundle(folder: Path) -> Path:
    write_bundle(tar_sources(tar_checkpoints(folder)), tiny_options(), folder / "bundle", lambda _: None)
    return folder / "bundle"


BUNDLES: Mapping[str, Callable[[Path], Path]] = {
    "text": tiny_bundle,
    "class, bf16": lambda folder: tiny_bundle(folder, text=False, precision=Precision.BF16),
    "ta_tok": _tar_bundle,
    "fp8": lambda folder: tiny_bundle(folder, precision=Precision.FP8),
    "int8": lambda folder: tiny_bundle(folder, precision=Precision.INT8_TENSORRT),
    "int4": lambda folder: tiny_bundle(folder, precision=Precision.INT4_TENSORRT),
}


@pytest.fixture(scope="module", params=["samplers", *BUNDLES])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    """Every graph of a kind of bundle by its name."""
    if request.param == "samplers":
        return {name: _sampler(name) for name in ("sampler", "sampler_full")}
    return _of_bundle(BUNDLES[request.param](tmp_path_factory.mktemp("limits")))


def _branches(node: Any) -> Iterator[Any]:
    return (attribute.g for attribute in node.attribute if attribute.HasField("g"))


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for branch in _branches(node):
            yield from _graphs(branch)


def _nodes(models: Mapping[str, Model], *operators: str) -> Iterator[tuple[Any, Any]]:
    """Every node of these operators, or of all, with the graph that it is in."""
    for model in models.values():
        for graph in _graphs(model.graph):
            yield from ((graph, node) for node in graph.node if not operators or node.op_type in operators)


def _attributes(node: Any) -> dict[str, Any]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def test_no_operator_is_one_that_is_refused(models: dict[str, Model]) -> None:
    used = {node.op_type for _, node in _nodes(models)}
    assert used
    assert not used & REFUSED


def test_no_branch_or_loop_lies_within_another(models: dict[str, Model]) -> None:
    for model in models.values():
        for node in model.graph.node:
            for branch in _branches(node):
                assert not {inner.op_type for inner in branch.node} & CONTROL_FLOW


def test_nothing_is_sorted_but_a_constant_number_of_values_within_the_limit(models: dict[str, Model]) -> None:
    for graph, node in _nodes(models, "TopK"):
        whole = [tensor for tensor in graph.initializer if tensor.data_type == INT64]
        constants = {tensor.name: np.frombuffer(tensor.raw_data, np.int64) for tensor in whole}
        assert constants[node.input[1]] <= LONGEST_SORT


def test_no_image_is_resized_with_antialiasing_and_nothing_is_scattered_with_a_reduction(
    models: dict[str, Model],
) -> None:
    for _, node in _nodes(models):
        assert not {"antialias", "reduction"} & _attributes(node).keys()


def test_eight_bit_pixels_appear_only_at_an_output(models: dict[str, Model]) -> None:
    outputs = {value.name for model in models.values() for value in model.graph.output}
    for _, node in _nodes(models, "Cast"):
        if _attributes(node)["to"] == UINT8:
            assert set(node.output) <= outputs


def test_attention_has_an_explicit_mask_or_none_and_nothing_that_is_dropped_or_refused(
    models: dict[str, Model],
) -> None:
    for _, node in _nodes(models, "Attention"):
        assert len(node.input) <= 4
        assert len(node.output) == 1
        assert _attributes(node).keys() <= {"scale", "q_num_heads", "kv_num_heads"}


def test_every_cache_goes_in_is_updated_in_a_row_of_slots_and_comes_out(models: dict[str, Model]) -> None:
    for graph, node in _nodes(models, "TensorScatter"):
        assert node.input[0] in {value.name for value in graph.input}
        assert node.output[0] in {value.name for value in graph.output}
        assert _attributes(node) == {"axis": -2, "mode": b"linear"}


def test_codes_are_symmetric(models: dict[str, Model]) -> None:
    for _, node in _nodes(models, "QuantizeLinear", "DequantizeLinear"):
        assert len(node.input) == 2
