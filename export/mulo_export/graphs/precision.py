"""The one type a graph computes in, and the weights of a file brought to it."""

from __future__ import annotations

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.graphs.builder import RECORD_TYPES, GraphBuilder, Value
from mulo_export.quantize import INT4_BLOCK, scale_name, zero_point_name

__all__ = ["Weights"]


class Weights:
    """The weights of one file as values of one graph, all of the type of one of them.

    Attributes:
        dtype: the type that the graph computes in: "float32", "float16" or "bfloat16".
    """

    def __init__(self, graph: GraphBuilder, file: TensorFile, location: str, *, typed_by: str) -> None:
        self._graph, self._file, self._location = graph, file, location
        self._quantized: dict[Value, list[Value]] = {}
        self.dtype = RECORD_TYPES[file.tensors[typed_by].dtype]

    def __getitem__(self, name: str) -> Value:
        """The weight `name`, left in its file, behind a Cast where it is of another type."""
        record = self._file.tensors[name]
        value = self._graph.weight(record, self._location)
        return value if RECORD_TYPES[record.dtype] == self.dtype else self._graph.cast(value, self.dtype)

    def linear(self, x: Value, name: str, residual: Value | None = None) -> Value:
        """`x` [rows, in] times the weight `name` [out, in], plus `residual`; quantised as the file is."""
        if scale_name(name) not in self._file.tensors:
            return self._graph.op("Gemm", x, self[name], residual, transB=1)
        by_outputs = zero_point_name(name) in self._file.tensors
        product = self._int8(x, name) if by_outputs else self._int4(x, name)
        return product if residual is None else self._graph.op("Add", product, residual)

    def to_float32(self, value: Value) -> Value:
        """`value`, of the graph's type, as float32."""
        return value if self.dtype == "float32" else self._graph.cast(value, "float32")

    def from_float32(self, value: Value) -> Value:
        """`value`, of type float32, as the graph's type."""
        return value if self.dtype == "float32" else self._graph.cast(value, self.dtype)

    def _int8(self, x: Value, name: str) -> Value:
        """Product of `x`, quantised as it comes, and integers; ONNX Runtime runs these nodes as one."""
        graph = self._graph
        if x not in self._quantized:
            names = [f"{x}.{part}" for part in ("quantized", "scale", "zero_point")]
            self._quantized[x] = graph.multi("DynamicQuantizeLinear", x, names=names)
        quantized, scale, zero_point = self._quantized[x]
        product = graph.op("MatMulInteger", quantized, self._raw(name), zero_point, self._raw(zero_point_name(name)))
        scales = graph.op("Mul", scale, self._raw(scale_name(name)))
        return graph.op("Mul", graph.cast(product, "float32"), scales)

    def _int4(self, x: Value, name: str) -> Value:
        """Product of `x` and numbers of 4 bits, brought to float32 where they are read."""
        record = self._file.tensors[name]
        inputs, packed = record.shape
        weight = self._graph.weight(record, self._location, [inputs, 2 * packed], "int4")
        scale = self._raw(scale_name(name))
        wide = self._graph.op("DequantizeLinear", weight, scale, axis=0, block_size=INT4_BLOCK)
        return self._graph.op("MatMul", x, wide)

    def _raw(self, name: str) -> Value:
        return self._graph.weight(self._file.tensors[name], self._location)
