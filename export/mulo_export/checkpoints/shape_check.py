"""Compare the tensors of a file with the ones that a model needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["shape_faults"]

_FLOAT_TYPES = ("F32", "F16", "BF16")


def shape_faults(file: TensorFile, shapes: Mapping[str, tuple[int, ...]], ignored: Collection[str]) -> Iterator[str]:
    """One sentence for every tensor that is missing, misshapen, not floating point, or surplus and not `ignored`."""
    for name, shape in shapes.items():
        record = file.tensors.get(name)
        if record is None:
            yield f"{name} is missing"
        elif record.shape != shape:
            yield f"{name} is {list(record.shape)}, expected {list(shape)}"
        elif record.dtype not in _FLOAT_TYPES:
            yield f"{name} is {record.dtype}, expected one of {', '.join(_FLOAT_TYPES)}"
    for name in sorted(file.tensors.keys() - shapes.keys() - set(ignored)):
        yield f"{name} is not part of the model"
