"""What NVIDIA's parser or builder refused, or took minutes over, is in none of these graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from bundles import vq_tensors
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.checkpoints.vq import read_vq
from mulo_export.graphs.decoder import decoder_graph
from mulo_export.graphs.sampler import sampler_graph
from mulo_export.graphs.upsampler import downsampler_graph, upsampler_graph
from safetensors.numpy import save_file

REFUSED = {"NonZero", "Multinomial", "Compress", "Unique", "BitShift", "DynamicQuantizeLinear"}
CONTROL_FLOW = {"If", "Loop", "Scan"}
LONGEST_SORT = 3840
# ONNX's numbers of these types.
UINT8, INT64 = 2, 7


@pytest.fixture(params=["sampler", "sampler_full", "upsampler", "downsampler", "decoder"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> onnx.ModelProto:
    """Every graph of this family, the samplers for the largest published vocabulary."""
    if request.param.startswith("sampler"):
        return sampler_graph(np.zeros((16384, 4), np.int64), full=request.param == "sampler_full").model()
    save_file(vq_tensors(np.random.default_rng(0)), tmp_path / "vq.safetensors", {"groups": "4"})
    file = read_tensor_file(tmp_path / "vq.safetensors")
    if request.param == "decoder":
        return decoder_graph(read_vq(file), file, "vq.safetensors", "half_up").model()
    declare = upsampler_graph if request.param == "upsampler" else downsampler_graph
    return declare(read_vq(file), file, "vq.safetensors", 2).model()


def _branches(node: Any) -> Iterator[Any]:
    return (attribute.g for attribute in node.attribute if attribute.HasField("g"))


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for branch in _branches(node):
            yield from _graphs(branch)


def test_no_operator_is_one_that_is_refused(model: onnx.ModelProto) -> None:
    used = {node.op_type for graph in _graphs(model.graph) for node in graph.node}
    assert used
    assert not used & REFUSED


def test_no_branch_or_loop_lies_within_another(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        for branch in _branches(node):
            assert not {inner.op_type for inner in branch.node} & CONTROL_FLOW


def test_nothing_is_sorted_but_a_constant_number_of_values_within_the_limit(model: onnx.ModelProto) -> None:
    for graph in _graphs(model.graph):
        whole = [tensor for tensor in graph.initializer if tensor.data_type == INT64]
        constants = {tensor.name: np.frombuffer(tensor.raw_data, np.int64) for tensor in whole}
        for node in graph.node:
            if node.op_type == "TopK":
                assert constants[node.input[1]] <= LONGEST_SORT


def test_no_image_is_resized_with_antialiasing_and_nothing_is_scattered_with_a_reduction(
    model: onnx.ModelProto,
) -> None:
    for graph in _graphs(model.graph):
        for node in graph.node:
            assert not {"antialias", "reduction"} & {attribute.name for attribute in node.attribute}


def test_eight_bit_values_appear_only_at_an_output(model: onnx.ModelProto) -> None:
    outputs = {value.name for value in model.graph.output}
    for graph in _graphs(model.graph):
        for node in graph.node:
            if node.op_type == "Cast" and any(attribute.i == UINT8 for attribute in node.attribute):
                assert set(node.output) <= outputs
