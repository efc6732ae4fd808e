"""Quantized weights: what the integers mean, how they are packed, and which kernels of ONNX Runtime run them."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from bundles import tiny_bundle
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.graphs.precision import BLOCK, scale_name, zero_point_name
from mulo_export.precision import Codes, CodeType, Precision
from mulo_export.quantize import quantize_weights
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file, save_file

NAME = "layers.0.feed_forward.w1.weight"
OUTPUTS, INPUTS = 1040, 72
"""More outputs than are quantized at once, and inputs that end within a block."""

Arrays = dict[str, NDArray[np.generic]]


def weights() -> NDArray[np.float32]:
    values = np.random.default_rng(0).standard_normal((OUTPUTS, INPUTS), np.float32)
    values[3] = 0
    values[4] = np.abs(values[4])
    return values


def quantized(folder: Path, tensors: Arrays, codes: CodeType) -> Arrays:
    save_file(tensors, folder / "exact.safetensors")
    rewrite(folder, codes)
    return load_file(folder / "quantized.safetensors")


def rewrite(folder: Path, codes: CodeType) -> None:
    destination = folder / "quantized.safetensors"
    quantize_weights(source(folder), destination, Codes("onnxruntime", codes), {}, lambda _: None)


def source(folder: Path) -> TensorFile:
    return read_tensor_file(folder / "exact.safetensors")


def test_int8_means_the_weights_to_half_a_step_and_zero_exactly(tmp_path: Path) -> None:
    parts = quantized(tmp_path, {NAME: weights()}, "uint8")
    integers, scale, zero = parts[NAME], parts[scale_name(NAME)], parts[zero_point_name(NAME)]
    assert (integers.dtype, integers.shape) == (np.uint8, (INPUTS, OUTPUTS))
    meant = ((integers.astype(np.float32) - zero) * scale).T
    # The zero point is rounded, too, so that a number at either end may be cut by half a step.
    assert (np.abs(meant - weights()) <= 1.01 * scale[:, None]).all()
    assert np.mean(np.abs(meant - weights()) <= 0.501 * scale[:, None]) > 0.98
    assert not meant[3].any()


def test_int8_is_what_the_quantizer_of_onnx_runtime_makes(tmp_path: Path) -> None:
    matrix = onnx.numpy_helper.from_array(np.ascontiguousarray(weights().T), "w")
    sizes = {"x": ["N", INPUTS], "y": ["N", OUTPUTS]}
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in sizes.items())
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [matrix])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), tmp_path / "exact.onnx")
    quantize_dynamic(tmp_path / "exact.onnx", tmp_path / "int8.onnx", per_channel=True, weight_type=QuantType.QUInt8)
    theirs = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "int8.onnx").graph.initializer}
    ours = quantized(tmp_path, {NAME: weights()}, "uint8")
    np.testing.assert_array_equal(ours[NAME], theirs["w_quantized"])
    np.testing.assert_allclose(ours[scale_name(NAME)], theirs["w_scale"], rtol=1e-6)
    np.testing.assert_array_equal(ours[zero_point_name(NAME)], theirs["w_zero_point"])


def test_int4_means_the_weights_to_a_step_of_their_block(tmp_path: Path) -> None:
    parts = quantized(tmp_path, {NAME: weights()}, "int4")
    packed, scale = parts[NAME], parts[scale_name(NAME)]
    assert (packed.shape, scale.shape) == ((INPUTS, OUTPUTS // 2), (3, OUTPUTS))
    nibbles = np.stack([packed & 0xF, packed >> 4], axis=-1).reshape(INPUTS, OUTPUTS).astype(np.int8)
    steps = np.repeat(scale, BLOCK, axis=0)[:INPUTS]
    meant = (np.where(nibbles > 7, nibbles - 16, nibbles) * steps).T
    # The largest number of a block is met exactly; one of the other sign and nearly its size is cut by a step.
    assert (np.abs(meant - weights()) <= 1.01 * np.abs(steps.T)).all()
    assert np.mean(np.abs(meant - weights()) <= 0.501 * np.abs(steps.T)) > 0.95
    blocks = np.abs(weights())[:, :BLOCK]
    np.testing.assert_allclose(np.abs(meant)[:, :BLOCK].max(axis=1), blocks.max(axis=1), rtol=1e-6)


@pytest.mark.parametrize("codes", ["uint8", "int4"])
def test_tensors_outside_linear_layers_become_float32(tmp_path: Path, codes: CodeType) -> None:
    others: Arrays = {
        "tok_embeddings.weight": weights()[:8].astype(np.float16),
        "layers.0.ffn_norm.weight": weights()[0],
    }
    parts = quantized(tmp_path, others, codes)
    for name, value in others.items():
        assert parts[name].dtype == np.float32
        np.testing.assert_array_equal(parts[name], value)


def test_a_weight_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    values = weights()
    values[1030, 1] = np.inf
    with pytest.raises(CheckpointError, match=r"w1\.weight"):
        quantized(tmp_path, {NAME: values}, "uint8")


def test_a_layer_that_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"found: +7 outputs"):
        quantized(tmp_path, {NAME: weights()[:7]}, "int4")


@pytest.mark.parametrize("codes", ["uint8", "int4"])
def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path, codes: CodeType) -> None:
    layer = np.random.default_rng(1).standard_normal((2048, 512), np.float32)
    tensors: Arrays = {f"layers.{index}.attention.wo.weight": layer for index in range(8)}
    save_file(tensors, tmp_path / "exact.safetensors")
    tracemalloc.start()
    try:
        rewrite(tmp_path, codes)
        assert tracemalloc.get_traced_memory()[1] < 3 * layer.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("precision", "kernels"),
    [(Precision.INT8, {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}), (Precision.INT4, {"MatMulNBits"})],
)
def test_linear_layers_run_in_the_kernels_made_for_them(
    tmp_path: Path, precision: Precision, kernels: set[str]
) -> None:
    bundle = tiny_bundle(tmp_path, precision=precision)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(str(bundle / "target.onnx"), options, providers=["CPUExecutionProvider"])
    nodes = Counter(
        node.op_type for node in onnx.load(tmp_path / "optimized.onnx", load_external_data=False).graph.node
    )
    layers = 2
    assert sum(nodes[kernel] for kernel in kernels) == 5 * layers + 1
    assert not nodes.keys() & {"MatMul", "Gemm", "MatMulInteger", "DequantizeLinear"}
