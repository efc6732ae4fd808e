"""Declare an ONNX graph node by node; the only module that imports `onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike

from mulo_export.checkpoints.tensor_file import TensorRecord

__all__ = [
    "OPSET",
    "RECORD_TYPES",
    "GraphBuilder",
    "Model",
    "Value",
    "check_model",
    "initializers",
    "load_model",
    "save_model",
    "signature",
    "with_fixed_sizes",
    "with_input_ranges",
]

OPSET = 24
_IR_VERSION = 11
Value = str
"""A value of a graph, known by its name."""
Model = onnx.ModelProto
"""A finished model."""

_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
    "int64": onnx.TensorProto.INT64,
    "int32": onnx.TensorProto.INT32,
    "uint8": onnx.TensorProto.UINT8,
    "bool": onnx.TensorProto.BOOL,
    "int8": onnx.TensorProto.INT8,
    "int4": onnx.TensorProto.INT4,
    "float8e4m3fn": onnx.TensorProto.FLOAT8E4M3FN,
}
RECORD_TYPES = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8e4m3fn",
    "I64": "int64",
    "I8": "int8",
}
"""The type that a graph has for a safetensors type."""
_RAW_TYPES: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "F32",
    onnx.TensorProto.INT8: "I8",
    onnx.TensorProto.INT64: "I64",
}


class GraphBuilder:
    """A graph under construction: inputs, nodes and outputs are declared in order, then the model is made."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> Value:
        """Declare a graph input; a string dimension is symbolic."""
        self._inputs.append(onnx.helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))
        return name

    def output(self, name: str, value: Value, dtype: str, shape: Sequence[int | str]) -> None:
        """Declare a graph output called `name` that carries `value`."""
        if value != name:
            self._nodes.append(onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(onnx.helper.make_tensor_value_info(name, _TYPES[dtype], list(shape)))

    def constant(self, array: ArrayLike, dtype: str | None = None) -> Value:
        """A small constant stored in the graph itself; equal constants are stored once."""
        data = np.asarray(array) if dtype is None else np.asarray(array).astype(np.dtype(dtype))
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(data).reshape(data.shape))
        return self._store(tensor)

    def weight(
        self, record: TensorRecord, location: str, shape: Sequence[int] | None = None, dtype: str | None = None
    ) -> Value:
        """A weight left where it lies: bytes of the file `location`, a path relative to the model's directory.

        Its shape and type are the record's, unless they are given.
        """
        if record.name not in self._initializers:
            tensor = onnx.TensorProto(name=record.name, data_type=_TYPES[dtype or RECORD_TYPES[record.dtype]])
            tensor.dims.extend(record.shape if shape is None else shape)
            _leave_outside(tensor, record, location)
            self._initializers[record.name] = tensor
        return record.name

    def op(self, op_type: str, *inputs: Value | None, name: str | None = None, **attributes: Any) -> Value:
        """Append a node with one output, called `name` where given, and return that output."""
        output = name or f"{self._name}.{op_type}_{len(self._nodes)}"
        return self.multi(op_type, *inputs, names=[output], **attributes)[0]

    def multi(self, op_type: str, *inputs: Value | None, names: Sequence[Value], **attributes: Any) -> list[Value]:
        """Append a node with the outputs `names`."""
        given = [value or "" for value in inputs]
        while given and not given[-1]:
            given.pop()
        node = onnx.helper.make_node(op_type, given, list(names), **attributes)
        self._nodes.append(node)
        return list(names)

    def cast(self, value: Value, dtype: str, name: str | None = None) -> Value:
        """`value` as `dtype`, called `name` where given."""
        return self.op("Cast", value, name=name, to=_TYPES[dtype])

    def quantize(self, value: Value, scale: Value, dtype: str) -> Value:
        """`value` / `scale`, rounded to codes of `dtype` around 0."""
        return self.op("QuantizeLinear", value, scale, output_dtype=_TYPES[dtype])

    def split(self, value: Value, sizes: Sequence[int], axis: int) -> list[Value]:
        """`value` cut along `axis` into parts of the given sizes."""
        names = [f"Split_{len(self._nodes)}_{part}" for part in range(len(sizes))]
        return self.multi("Split", value, self.constant(sizes, "int64"), names=names, axis=axis)

    def graph(self) -> onnx.GraphProto:
        """The bare graph, to be the branch of an `If`."""
        return onnx.helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, list(self._initializers.values())
        )

    def model(self) -> onnx.ModelProto:
        """The finished model, opset 24."""
        opset = onnx.helper.make_opsetid("", OPSET)
        return onnx.helper.make_model(self.graph(), producer_name="mulo", ir_version=_IR_VERSION, opset_imports=[opset])

    def save(self, path: Path) -> None:
        """Write the model to `path`; its weights stay in the files that it refers to."""
        path.write_bytes(self.model().SerializeToString(deterministic=True))

    def _store(self, tensor: onnx.TensorProto) -> Value:
        for name, known in self._initializers.items():
            if known.data_location != onnx.TensorProto.EXTERNAL and _same(known, tensor):
                return name
        tensor.name = f"constant_{self._name}_{len(self._initializers)}"
        self._initializers[tensor.name] = tensor
        return tensor.name


def load_model(path: Path) -> Model:
    """The model at `path` with all its weights in memory."""
    return onnx.load(path)


def with_fixed_sizes(path: Path, sizes: Mapping[str, int]) -> bytes:
    """The model at `path`, serialised without its weights, with numbers for the symbolic dimensions `sizes`."""
    model = onnx.load(path, load_external_data=False)
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return bytes(model.SerializeToString(deterministic=True))


def with_input_ranges(path: Path, prefix: str, output: str) -> tuple[bytes, list[str]]:
    """The model at `path`, serialised without its weights, that also tells how large the inputs of its Gemms are.

    Args:
        path: the model.
        prefix: how the names of the weights begin whose Gemms are meant.
        output: what the added output is called: float32 [2, L], the largest magnitudes and the mean squares.

    Returns:
        The model and the names of the L weights.
    """
    model = onnx.load(path, load_external_data=False)
    kept = {tensor.name for tensor in model.graph.initializer if tensor.name.startswith(prefix)}
    gemms = [node for node in model.graph.node if node.op_type == "Gemm" and node.input[1] in kept]
    observer = GraphBuilder(output)
    entering = [observer.cast(node.input[0], "float32") for node in gemms]
    largest = [observer.op("ReduceMax", observer.op("Abs", value), keepdims=1) for value in entering]
    squares = [observer.op("ReduceMean", observer.op("Mul", value, value), keepdims=1) for value in entering]
    shape = observer.constant([2, len(gemms)], "int64")
    observer.op("Reshape", observer.op("Concat", *largest, *squares, axis=0), shape, name=output)
    observer.output(output, output, "float32", [2, len(gemms)])
    added = observer.graph()
    model.graph.node.extend(added.node)
    model.graph.initializer.extend(added.initializer)
    model.graph.output.extend(added.output)
    return bytes(model.SerializeToString(deterministic=True)), [node.input[1] for node in gemms]


def save_model(model: Model, path: Path, records: Mapping[str, TensorRecord], location: str) -> None:
    """Write `model` to `path`; the values of the initializers in `records` are left in the file `location`."""
    for tensor in model.graph.initializer:
        if tensor.name in records:
            _leave_outside(tensor, records[tensor.name], location)
    path.write_bytes(model.SerializeToString(deterministic=True))


def initializers(model: Model) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Type, shape and bytes of every initializer that a node reads; two 4-bit values share a byte."""
    read = {name for node in model.graph.node for name in node.input}
    return {tensor.name: _content(tensor) for tensor in model.graph.initializer if tensor.name in read}


def check_model(path: Path) -> None:
    """Check the model at `path`, its node types and shapes included, without reading its weights.

    Raises:
        ValueError: it breaks the ONNX specification.
    """
    try:
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ValueError(str(error)) from error


def signature(path: Path) -> dict[str, tuple[str, tuple[int | str, ...]]]:
    """Type and dimensions of every input and output of the model at `path`; a string dimension is symbolic."""
    graph = onnx.load(path, load_external_data=False).graph
    return {value.name: _declaration(value.type.tensor_type) for value in [*graph.input, *graph.output]}


def _declaration(declared: onnx.TypeProto.Tensor) -> tuple[str, tuple[int | str, ...]]:
    dtype = next((name for name, number in _TYPES.items() if number == declared.elem_type), str(declared.elem_type))
    dims = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in declared.shape.dim)
    return dtype, tuple(dims)


def _content(tensor: onnx.TensorProto) -> tuple[str, tuple[int, ...], bytes]:
    raw = tensor.raw_data if tensor.HasField("raw_data") else onnx.numpy_helper.to_array(tensor).tobytes()
    return _RAW_TYPES.get(tensor.data_type, "U8"), tuple(tensor.dims), raw


def _leave_outside(tensor: onnx.TensorProto, record: TensorRecord, location: str) -> None:
    for field in ("raw_data", "float_data", "int32_data", "int64_data"):
        tensor.ClearField(field)
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", record.offset), ("length", record.size)):
        tensor.external_data.add(key=key, value=str(value))
    tensor.data_location = onnx.TensorProto.EXTERNAL


def _same(a: onnx.TensorProto, b: onnx.TensorProto) -> bool:
    return a.data_type == b.data_type and a.dims == b.dims and a.raw_data == b.raw_data
