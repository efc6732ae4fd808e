"""Compare the tensors of a file with the ones that a model needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["check_tensors"]

_FLOAT_TYPES = ("F32", "F16", "BF16")
_LOG = logging.getLogger(__name__)


def check_tensors(
    file: TensorFile, shapes: Mapping[str, tuple[int, ...]], ignored: Sequence[str], what: str, *faults: str
) -> None:
    """Check that `file` holds the tensors of a model; what it may hold beside them is logged.

    Args:
        file: the file.
        shapes: name and shape of every tensor of the model.
        ignored: patterns of names that the file may hold beside, such as "teacher.*".
        what: the model, for the message.
        faults: what else is wrong with the file.

    Raises:
        CheckpointError: tensors are missing, misshapen, not floating point, or surplus and not `ignored`; the message
            lists all of them.
    """
    found = [*_shape_faults(file, shapes), *_surplus_faults(file, shapes, ignored), *faults]
    if found:
        raise CheckpointError(
            f"{file.path}: not the tensors of {what}",
            found="\n            ".join(found),
            fix="use the checkpoint's original file; nothing is ignored but " + ", ".join(ignored),
        )
    for name in sorted(file.tensors.keys() - shapes.keys()):
        _LOG.info("%s: %s is ignored", file.path, name)


def _shape_faults(file: TensorFile, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    for name, shape in shapes.items():
        record = file.tensors.get(name)
        if record is None:
            yield f"{name} is missing"
        elif record.shape != shape:
            yield f"{name} is {list(record.shape)}, expected {list(shape)}"
        elif record.dtype not in _FLOAT_TYPES:
            yield f"{name} is {record.dtype}, expected one of {', '.join(_FLOAT_TYPES)}"


def _surplus_faults(file: TensorFile, shapes: Mapping[str, tuple[int, ...]], ignored: Sequence[str]) -> Iterator[str]:
    for name in sorted(file.tensors.keys() - shapes.keys()):
        if not any(fnmatchcase(name, pattern) for pattern in ignored):
            yield f"{name} is not part of the model"
