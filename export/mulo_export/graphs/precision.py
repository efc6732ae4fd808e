"""The one type a graph computes in, and the weights of a file brought to it, those in codes by their scales."""

from __future__ import annotations

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.codes import BLOCK, input_scale_name, scale_name, zero_point_name
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
        self._integer_inputs: dict[Value, list[Value]] = {}

    def __getitem__(self, name: str) -> Value:
        """The weight `name`, left in its file, behind a Cast where it is of another type."""
        record = self._file.tensors[name]
        value = self._graph.weight(record, self._location)
        return value if RECORD_TYPES[record.dtype] == self.dtype else self._graph.cast(value, self.dtype)

    def linear(self, x: Value, name: str, residual: Value | None = None) -> Value:
        """The product x W^T + residual for `x` [T, in] and the weight `name` [out, in], quantized as the file says.

        Codes beside weights of float32 have ONNX Runtime's form; beside those of float16 that of NVIDIA's builders.
        """
        if scale_name(name) not in self._file.tensors:
            return self._graph.op("Gemm", x, self[name], residual, transB=1)
        if self.dtype != "float32":
            return self._graph.op("Gemm", self._input(x, name), self._matrix(name), residual, transB=1)
        by_outputs = zero_point_name(name) in self._file.tensors
        product = self._integer_product(x, name) if by_outputs else self._int4_product(x, name)
        return product if residual is None else self._graph.op("Add", product, residual)

    def to_float32(self, value: Value) -> Value:
        """`value`, of the graph's type, as float32."""
        return value if self.dtype == "float32" else self._graph.cast(value, "float32")

    def from_float32(self, value: Value) -> Value:
        """`value`, of type float32, as the graph's type."""
        return value if self.dtype == "float32" else self._graph.cast(value, self.dtype)

    def _matrix(self, name: str) -> Value:
        """The weight `name` [out, in] behind the DequantizeLinear of its codes and scales."""
        scales = self[scale_name(name)]
        if self._file.tensors[name].dtype != "U8":
            return self._graph.op("DequantizeLinear", self._stored(name), scales, axis=0)
        return self._graph.op("DequantizeLinear", self._int4(name), scales, axis=1, block_size=BLOCK)

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

    def _integer_product(self, x: Value, name: str) -> Value:
        """Product of `x`, quantized as it comes, and codes [in, out]; ONNX Runtime runs these nodes as one."""
        graph = self._graph
        if x not in self._integer_inputs:
            names = [f"{x}.{part}" for part in ("quantized", "scale", "zero_point")]
            self._integer_inputs[x] = graph.multi("DynamicQuantizeLinear", x, names=names)
        codes, scale, zero_point = self._integer_inputs[x]
        product = graph.op("MatMulInteger", codes, self._stored(name), zero_point, self._stored(zero_point_name(name)))
        return graph.op("Mul", graph.cast(product, "float32"), graph.op("Mul", scale, self[scale_name(name)]))

    def _int4_product(self, x: Value, name: str) -> Value:
        """Product of `x` and codes [in, out] of 4 bits, brought to float32 where they are read; likewise one node."""
        scales = self[scale_name(name)]
        weight = self._graph.op("DequantizeLinear", self._int4(name), scales, axis=0, block_size=BLOCK)
        return self._graph.op("MatMul", x, weight)

    def _int4(self, name: str) -> Value:
        """Codes of 4 bits, of which the file's bytes hold two each."""
        record = self._file.tensors[name]
        rows, pairs = record.shape
        return self._graph.weight(record, self._location, (rows, 2 * pairs), dtype="int4")

    def _stored(self, name: str) -> Value:
        """The tensor `name` as the file has it."""
        return self._graph.weight(self._file.tensors[name], self._location)
