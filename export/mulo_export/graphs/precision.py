"""The one type a graph computes in, and the weights of a file brought to it, those in codes by their scales."""

from __future__ import annotations

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.codes import BLOCK, input_scale_name, scale_name
from mulo_export.graphs.builder import RECORD_TYPES, GraphBuilder, Value

__all__ = ["Weights"]


class Weights:
    """The weights of one file as values of one graph, all of the type of one of them.

    Attributes:
        dtype: the type that the graph computes in: "float32", "float16" or "bfloat16".
    """

    def __init__(self, graph: GraphBuilder, file: TensorFile, location: str, *, typed_by: str) -> None:
        self._graph, self._file, self._location = graph, file, location
        self.dtype = RECORD_TYPES[file.tensors[typed_by].dtype]
        self._quantized_inputs: dict[Value, Value] = {}

    def __getitem__(self, name: str) -> Value:
        """The weight `name`, left in its file, behind a Cast where it is of another type."""
        record = self._file.tensors[name]
        value = self._graph.weight(record, self._location)
        return value if RECORD_TYPES[record.dtype] == self.dtype else self._graph.cast(value, self.dtype)

    def linear(self, x: Value, name: str, residual: Value | None = None) -> Value:
        """The product x W^T + residual for `x` [T, in] and the weight `name` [out, in], quantized as the file says."""
        return self._graph.op("Gemm", self._input(x, name), self._matrix(name), residual, transB=1)

    def _matrix(self, name: str) -> Value:
        """The weight `name` [out, in], behind a DequantizeLinear where the file holds codes and scales."""
        if scale_name(name) not in self._file.tensors:
            return self[name]
        record, scales = self._file.tensors[name], self[scale_name(name)]
        if record.dtype != "U8":
            return self._graph.op("DequantizeLinear", self._graph.weight(record, self._location), scales, axis=0)
        rows, pairs = record.shape
        codes = self._graph.weight(record, self._location, (rows, 2 * pairs), dtype="int4")
        return self._graph.op("DequantizeLinear", codes, scales, axis=1, block_size=BLOCK)

    def _input(self, x: Value, name: str) -> Value:
        """`x` brought to the codes of the weight `name` and back, where the file has a scale for it.

        Layers that read the same value share its codes, for what entered them was the same when they were calibrated.
        """
        if input_scale_name(name) not in self._file.tensors:
            return x
        if x not in self._quantized_inputs:
            scale = self[input_scale_name(name)]
            codes = self._graph.quantize(x, scale, RECORD_TYPES[self._file.tensors[name].dtype])
            self._quantized_inputs[x] = self._graph.op("DequantizeLinear", codes, scale)
        return self._quantized_inputs[x]

    def to_float32(self, value: Value) -> Value:
        """`value`, of the graph's type, as float32."""
        return value if self.dtype == "float32" else self._graph.cast(value, "float32")

    def from_float32(self, value: Value) -> Value:
        """`value`, of type float32, as the graph's type."""
        return value if self.dtype == "float32" else self._graph.cast(value, self.dtype)
