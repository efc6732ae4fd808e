"""Quantise the linear layers of a transformer: rewrite its weights tensor by tensor, straight from the checkpoint.

The forms are those of ONNX Runtime's own quantizer, whose kernels then serve them. A weight [out, in] becomes, under
its own name, a matrix [in, out] of integers, and scales beside it:

int8: unsigned, one scale and zero point an output. Signed weights overflow the 16-bit sums of processors without VNNI.
int4: signed and symmetric, one scale for every 32 inputs of an output; two numbers share a byte, the first one low.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mulo_engines.errors import CheckpointError
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.precision import Precision
from mulo_export.weights import Progress, TensorEntry, WrittenFile, cast_values, write_tensors

__all__ = ["INT4_BLOCK", "quantize_weights", "quantized_entries", "scale_name", "zero_point_name"]

INT4_BLOCK = 32
"""Inputs that share a scale at int4."""

_LINEAR_STEMS = ("layers.", "output.")
_OUTPUTS = 512
"""Outputs quantised at once, so that no second matrix is in memory in floating point."""


def scale_name(weight: str) -> str:
    """What the scales of the quantised tensor `weight` are called."""
    return f"{weight}.scale"


def zero_point_name(weight: str) -> str:
    """What the zero points of the tensor `weight`, quantised to int8, are called."""
    return f"{weight}.zero_point"


def quantize_weights(file: TensorFile, destination: Path, precision: Precision, progress: Progress) -> WrittenFile:
    """Write the weights in `file` with its linear layers as INT8 or INT4, and all others as float32.

    Raises:
        CheckpointError: a value is not finite, or a layer has an odd number of outputs, which int4 cannot pack.
    """
    entries: dict[str, TensorEntry] = {}
    for record in file.tensors.values():
        entries |= quantized_entries(record, precision)
    values = (value for record in file.tensors.values() for value in _values(file, record, precision))
    return write_tensors(destination, entries, values, file.metadata, progress)


def quantized_entries(record: TensorRecord, precision: Precision) -> dict[str, TensorEntry]:
    """The header's entries of what the tensor `record` becomes at INT8 or INT4, in order."""
    if not _is_linear(record):
        return {record.name: _entry("F32", *record.shape)}
    outputs, inputs = record.shape
    if precision is Precision.INT8:
        weights, scales = _entry("U8", inputs, outputs), _entry("F32", outputs)
        return {
            record.name: weights,
            scale_name(record.name): scales,
            zero_point_name(record.name): _entry("U8", outputs),
        }
    scales = _entry("F32", -(-inputs // INT4_BLOCK), outputs)
    return {record.name: _entry("U8", inputs, outputs // 2), scale_name(record.name): scales}


def _is_linear(record: TensorRecord) -> bool:
    return len(record.shape) == 2 and record.name.startswith(_LINEAR_STEMS)


def _entry(dtype: str, *shape: int) -> TensorEntry:
    return TensorEntry(dtype, shape, int(np.prod(shape)) * (4 if dtype == "F32" else 1))


def _values(file: TensorFile, record: TensorRecord, precision: Precision) -> Iterator[NDArray[Any]]:
    """The arrays of `quantized_entries`."""
    weights = file.array(record.name)
    if not _is_linear(record):
        yield cast_values(file.path, record.name, weights, "F32")
        return
    if precision is Precision.INT4 and record.shape[0] % 2:
        raise CheckpointError(
            f"{file.path}: tensor {record.name!r} cannot be packed in 4 bits",
            found=f"{record.shape[0]} outputs",
            expected="an even number",
            fix="export with --precision int8",
        )
    quantize = _int8 if precision is Precision.INT8 else _int4
    parts = []
    for first in range(0, record.shape[0], _OUTPUTS):
        rows = cast_values(file.path, record.name, weights[first : first + _OUTPUTS], "F32")
        parts.append(quantize(rows))
    for arrays in zip(*parts, strict=True):
        yield np.concatenate(arrays, axis=-1)


def _int8(rows: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Integers [in, rows], scales [rows] and zero points [rows] of `rows` [rows, in]; zero is a value of its own."""
    low, high = np.minimum(rows.min(axis=1), 0), np.maximum(rows.max(axis=1), 0)
    scale = _nonzero((high - low) / np.float32(255))
    zero = np.rint(-low / scale)
    integers = np.clip(np.rint(rows / scale[:, None] + zero[:, None]), 0, 255)
    return integers.astype(np.uint8).T, scale, zero.astype(np.uint8)


def _int4(rows: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Packed integers [in, rows / 2] and scales [blocks, rows]; the largest number of a block is -8 of its scale."""
    outputs, inputs = rows.shape
    blocks = np.pad(rows, ((0, 0), (0, -inputs % INT4_BLOCK))).reshape(outputs, -1, INT4_BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], axis=2)
    scale = _nonzero(largest / np.float32(-8))
    integers = np.clip(np.rint(blocks / scale), -8, 7).astype(np.int8).reshape(outputs, -1)[:, :inputs]
    nibbles = integers.T.view(np.uint8) & 0xF
    return nibbles[:, 0::2] | nibbles[:, 1::2] << 4, scale[:, :, 0].T


def _nonzero(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """`scale` with 1 where it is 0, which is where every number is."""
    return np.where(scale == 0, np.float32(1), scale)
