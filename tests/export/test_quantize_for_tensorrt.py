"""Linear layers as codes and scales: what comes back, what stays as it is, and what the graph does with them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from golden_models import load_graph, open_golden
from mulo_engines.errors import CheckpointError
from mulo_export.calibration import InputRange
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.codes import BLOCK, scale_name
from mulo_export.graphs.builder import GraphBuilder
from mulo_export.graphs.precision import Weights
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.precision import CodeType
from mulo_export.quantize_for_tensorrt import quantize_weights, quantized_inputs
from numpy.typing import NDArray
from safetensors.numpy import save_file

NAME = "layers.0.attention.wo.weight"
ROWS, COLUMNS = 48, 64
CODES: list[CodeType] = ["int8", "float8e4m3fn", "int4"]

Tensors = Mapping[str, NDArray[Any]]


def _quantized(folder: Path, tensors: Tensors, codes: CodeType, amax: Mapping[str, float] | None = None) -> TensorFile:
    save_file(dict(tensors), folder / "checkpoint.safetensors")
    file = read_tensor_file(folder / "checkpoint.safetensors")
    quantize_weights(file, folder / "weights.safetensors", codes, "F16", amax or {}, lambda _: None)
    return read_tensor_file(folder / "weights.safetensors")


def _tensors(weight: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    return {"tok_embeddings.weight": np.zeros((2, 2), np.float16), NAME: weight}


def _product(file: TensorFile, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the graph makes of `x` and the quantized weight, run by ONNX Runtime."""
    graph = GraphBuilder("linear")
    weights = Weights(graph, file, file.path.name, typed_by="tok_embeddings.weight")
    given = graph.cast(graph.input("x", "float32", ["N", x.shape[1]]), "float16")
    graph.output("y", graph.cast(weights.linear(given, NAME), "float32", "y"), "float32", ["N", ROWS])
    with load_graph(graph, file.path.with_name("linear.onnx")) as engine:
        return engine.run_once({"x": x})["y"]


def _errors(weight: NDArray[np.float32], codes: CodeType) -> NDArray[np.float32]:
    """The largest error that each weight may have: half a step, and the rounding of float16 behind it."""
    if codes == "float8e4m3fn":
        # Three bits of mantissa, and steps of 2^-9 times the scale near zero.
        return np.abs(weight) / 16 + np.abs(weight).max(axis=1, keepdims=True) / 448 / 2**10 + 1e-4
    if codes == "int8":
        largest = np.abs(weight).max(axis=1, keepdims=True)
        return np.broadcast_to(largest / 127 / 2 + largest / 2**10, weight.shape)
    blocks = np.abs(weight).reshape(ROWS, -1, BLOCK).max(axis=-1)
    # Clipping may take a quarter off the largest weight of a block.
    return np.repeat(blocks / 4 + 1e-3, BLOCK, axis=1)


@pytest.mark.parametrize("codes", CODES)
def test_a_weight_comes_back_within_its_steps(codes: CodeType, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((ROWS, COLUMNS), np.float32) * rng.uniform(0.01, 10, (ROWS, 1)).astype(np.float32)
    found = _product(_quantized(tmp_path, _tensors(weight), codes), np.eye(COLUMNS, dtype=np.float32)).T
    assert (np.abs(found - weight) <= _errors(weight, codes)).all()
    assert not np.array_equal(found, weight)


@pytest.mark.parametrize(("codes", "limit"), [("int8", 0.01), ("float8e4m3fn", 0.03), ("int4", 0.11)])
def test_normal_weights_lose_as_much_as_their_bits_say(codes: CodeType, limit: float, tmp_path: Path) -> None:
    weight = np.random.default_rng(1).standard_normal((ROWS, COLUMNS), np.float32)
    found = _product(_quantized(tmp_path, _tensors(weight), codes), np.eye(COLUMNS, dtype=np.float32)).T
    assert np.linalg.norm(found - weight) < limit * np.linalg.norm(weight)


@pytest.mark.parametrize("codes", CODES)
def test_weights_of_nothing_and_next_to_nothing_stay_finite(codes: CodeType, tmp_path: Path) -> None:
    weight = np.zeros((ROWS, COLUMNS), np.float32)
    weight[1] = 6e-8
    found = _product(_quantized(tmp_path, _tensors(weight), codes), np.eye(COLUMNS, dtype=np.float32)).T
    assert (found[0] == 0).all()
    assert np.abs(found).max() < 1e-6


def test_known_inputs_become_codes_and_larger_ones_are_clipped(tmp_path: Path) -> None:
    weight = np.eye(ROWS, COLUMNS, dtype=np.float32)
    x = np.linspace(-4, 4, COLUMNS, dtype=np.float32)[None]
    found = _product(_quantized(tmp_path, _tensors(weight), "int8", {NAME: 2.0}), x)[0]
    expected = np.clip(x[0, :ROWS], -2, 2)
    # One code lies beyond the largest negative value.
    assert np.abs(found - expected).max() <= 2 / 127 + 1e-3
    assert len(np.unique(np.rint(found * 127 / 2))) > 32


def test_only_the_matrices_of_layers_become_codes(tmp_path: Path) -> None:
    names = ("tok_embeddings.weight", "output.weight", "cls_embedding.cap_proj.fc1.weight")
    plain = {name: np.ones((ROWS, COLUMNS), np.float32) for name in names}
    ragged = {"layers.0.feed_forward.w2.weight": np.ones((ROWS, BLOCK + 16), np.float32)}
    norm = {"layers.0.ffn_norm.weight": np.ones(COLUMNS, np.float32)}
    tensors = {**plain, **ragged, **norm, NAME: np.ones((ROWS, COLUMNS), np.float32)}
    found = _quantized(tmp_path, tensors, "int4").tensors
    assert {name for name, record in found.items() if record.dtype == "U8"} == {NAME}
    assert {record.dtype for name, record in found.items() if name != NAME} == {"F16"}
    assert found[NAME].shape == (ROWS, COLUMNS // 2)
    assert found[scale_name(NAME)].shape == (ROWS, COLUMNS // BLOCK)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e5])
@pytest.mark.parametrize("codes", CODES)
def test_a_weight_that_float16_cannot_hold_is_refused_by_name(codes: CodeType, value: float, tmp_path: Path) -> None:
    weight = np.ones((ROWS, COLUMNS), np.float32)
    weight[3, 5] = value
    with pytest.raises(CheckpointError, match=NAME.replace(".", r"\.")):
        _quantized(tmp_path, _tensors(weight), codes)


@pytest.mark.parametrize("codes", CODES)
def test_no_more_than_a_few_copies_of_one_tensor_are_in_memory(codes: CodeType, tmp_path: Path) -> None:
    weight = np.ones((256, 256), np.float32)
    tensors = {f"layers.{layer}.attention.wo.weight": weight for layer in range(64)}
    save_file(tensors, tmp_path / "checkpoint.safetensors")
    file = read_tensor_file(tmp_path / "checkpoint.safetensors")
    tracemalloc.start()
    try:
        quantize_weights(file, tmp_path / "weights.safetensors", codes, "F16", {}, lambda _: None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * weight.nbytes


def test_inputs_with_a_few_large_values_stay_floating_point_in_int8() -> None:
    ranges = {"even": InputRange(amax=4.0, rms=1.0), "peaked": InputRange(amax=40.0, rms=1.0)}
    ranges["never read"] = InputRange(amax=0.0, rms=0.0)
    assert quantized_inputs(ranges, "int8") == {"even": 4.0}
    assert quantized_inputs(ranges, "float8e4m3fn") == {"even": 4.0, "peaked": 40.0}


@pytest.mark.parametrize("codes", CODES)
def test_everything_but_the_products_of_layers_computes_as_in_float16(codes: CodeType, tmp_path: Path) -> None:
    golden = open_golden("llamagen_t2i", tmp_path)
    matrices = [name for name in golden.file.tensors if name.startswith("layers.") and "norm" not in name]
    amax = {} if codes == "int4" else dict.fromkeys(matrices, 8.0)
    quantize_weights(golden.file, tmp_path / "codes.safetensors", codes, "F16", amax, lambda _: None)
    path = tmp_path / "codes.onnx"
    transformer_graph(golden.config, read_tensor_file(tmp_path / "codes.safetensors"), "codes.safetensors").save(path)
    onnx.checker.check_model(path, full_check=True)
    graph = onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False), strict_mode=True).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
    norms = {types[node.output[0]] for node in graph.node if node.op_type == "RMSNormalization"}
    assert norms == {onnx.TensorProto.FLOAT}
    assert types["logits"] == onnx.TensorProto.FLOAT
    assert types["k_cache_out.0"] == onnx.TensorProto.FLOAT16
    producers = {output: node.op_type for node in graph.node for output in node.output}
    weights = [node.input[1] for node in graph.node if node.op_type == "Gemm"]
    plain = [name for name in weights if producers.get(name) != "DequantizeLinear"]
    # In 4 bits, layers whose inputs are no whole blocks keep their weights, too.
    assert "output.weight" in plain
    assert len(plain) == 1 or codes == "int4"
    # Two of a layer's five matrices read the same value.
    quantized = sum(node.op_type == "QuantizeLinear" for node in graph.node)
    assert quantized == (0 if codes == "int4" else 4 * golden.config.layers)
