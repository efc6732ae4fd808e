"""Quantise the linear layers of a transformer graph with ONNX Runtime's own quantizer.

Unlike at the floating-point precisions, the whole model passes through memory. The quantised weights form a weights
file of their own, in place of the checkpoint's, so that a bundle has the same files at every precision.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.onnx_model import ONNXModel

from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.graphs.builder import Model, initializers, load_model, save_model
from mulo_export.precision import Precision
from mulo_export.weights import Progress, TensorEntry, WrittenFile, write_tensors

__all__ = ["quantize_graph"]

_BLOCK = 32
_INLINE_LIMIT = 1024
"""Bytes; a smaller constant stays in the graph."""


def quantize_graph(
    graph: Path, location: str, precision: Precision, kept: Iterable[str], progress: Progress
) -> WrittenFile:
    """Quantise `graph` in place, and replace its weights by what it then reads and the tensors `kept`.

    Args:
        graph: a float32 model.
        location: its weights file, relative to its directory.
        precision: INT8 (dynamic: weights per output channel, activations per call) or INT4 (weights in blocks of 32
            inputs, as DequantizeLinear and MatMul, which every backend reads).
        kept: names of weights that other graphs read.
        progress: told of every tensor written.
    """
    weights = graph.parent / location
    exact = read_tensor_file(weights)
    with _quiet():
        model = _int8(graph) if precision is Precision.INT8 else _int4(graph)
    content = {name: value for name, value in initializers(model).items() if len(value[2]) >= _INLINE_LIMIT}
    content |= {name: _content(exact, name) for name in kept}
    entries = {name: _entry(*value) for name, value in content.items()}
    arrays = (np.frombuffer(raw, np.uint8) for _, _, raw in content.values())
    quantized = weights.with_suffix(".quantized")
    written = write_tensors(quantized, entries, arrays, exact.metadata, progress)
    save_model(model, graph, read_tensor_file(quantized).tensors, location)
    quantized.replace(weights)
    return written


def _int8(graph: Path) -> Model:
    with TemporaryDirectory(dir=graph.parent, prefix=".quantize-") as directory:
        output = Path(directory) / "model.onnx"
        quantize_dynamic(
            graph,
            output,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            # Signed weights overflow the 16-bit sums of processors without VNNI.
            weight_type=QuantType.QUInt8,
            use_external_data_format=True,
        )
        return load_model(output)


def _int4(graph: Path) -> Model:
    wrapped = ONNXModel(load_model(graph))
    wrapped.replace_gemm_with_matmul()
    scheme = DefaultWeightOnlyQuantConfig(block_size=_BLOCK, is_symmetric=True, quant_format=QuantFormat.QDQ)
    quantizer = MatMulNBitsQuantizer(wrapped.model, algo_config=scheme)
    quantizer.process()
    model: Model = quantizer.model.model
    return model


def _content(file: TensorFile, name: str) -> tuple[str, tuple[int, ...], bytes]:
    record = file.tensors[name]
    return record.dtype, record.shape, file.array(name).tobytes()


def _entry(dtype: str, shape: tuple[int, ...], raw: bytes) -> TensorEntry:
    # safetensors has no 4-bit type: such a tensor is the bytes that hold it.
    return TensorEntry(dtype, (len(raw),) if dtype == "U8" else shape, len(raw))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the quantizer, which tells the root logger of every tensor."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
