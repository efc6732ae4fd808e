"""The one type a graph computes in, and the weights of a file brought to it."""

from __future__ import annotations

from mulo_export.checkpoints.tensor_file import TensorFile
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

    def __getitem__(self, name: str) -> Value:
        """The weight `name`, left in its file, behind a Cast where it is of another type."""
        record = self._file.tensors[name]
        value = self._graph.weight(record, self._location)
        return value if RECORD_TYPES[record.dtype] == self.dtype else self._graph.cast(value, self.dtype)

    def to_float32(self, value: Value) -> Value:
        """`value`, of the graph's type, as float32."""
        return value if self.dtype == "float32" else self._graph.cast(value, "float32")

    def from_float32(self, value: Value) -> Value:
        """`value`, of type float32, as the graph's type."""
        return value if self.dtype == "float32" else self._graph.cast(value, self.dtype)
