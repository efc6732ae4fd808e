"""The linear layers of a transformer in the form of ONNX Runtime's own quantizer, whose kernels on the CPU serve them.

A weight [out, in] becomes, under its own name, a matrix [in, out] of codes, and scales in float32 beside it:

uint8: one scale and zero point an output. Signed weights overflow the 16-bit sums of processors without VNNI.
int4: symmetric, one scale for every 32 inputs of an output; two codes share a byte, the first in the lower half.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from mulo_engines.errors import CheckpointError
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.codes import BLOCK, scale_name, zero_point_name
from mulo_export.precision import CodeType
from mulo_export.weights import TensorEntry, cast_pieces, converted_entry, map_rows

__all__ = ["onnxruntime_entries", "onnxruntime_values"]

_LINEAR_STEMS = ("layers.", "output.")


def onnxruntime_entries(record: TensorRecord, codes: CodeType) -> Iterator[tuple[str, TensorEntry]]:
    """The header's entries of what a tensor becomes; what is not quantized becomes float32."""
    if not _is_linear(record):
        yield record.name, converted_entry(record, "F32")
        return
    outputs, inputs = record.shape
    if codes == "int4":
        yield record.name, _entry("U8", inputs, outputs // 2)
        yield scale_name(record.name), _entry("F32", -(-inputs // BLOCK), outputs)
        return
    yield record.name, _entry("U8", inputs, outputs)
    yield scale_name(record.name), _entry("F32", outputs)
    yield zero_point_name(record.name), _entry("U8", outputs)


def onnxruntime_values(file: TensorFile, record: TensorRecord, codes: CodeType) -> Iterator[NDArray[Any]]:
    """The arrays of `onnxruntime_entries`, whole or in pieces.

    Raises:
        CheckpointError: a value is not finite, or a layer has an odd number of outputs, which int4 cannot pack.
    """
    if not _is_linear(record):
        yield from cast_pieces(file, record.name, "F32")
        return
    if codes == "int4" and record.shape[0] % 2:
        raise CheckpointError(
            f"{file.path}: tensor {record.name!r} cannot be packed in 4 bits",
            found=f"{record.shape[0]} outputs",
            expected="an even number",
            fix="export with --precision int8",
        )
    quantize = _int4 if codes == "int4" else _uint8
    for arrays in zip(*map_rows(quantize, file, record, "F32"), strict=True):
        yield np.concatenate(arrays, axis=-1)


def _is_linear(record: TensorRecord) -> bool:
    return len(record.shape) == 2 and record.name.startswith(_LINEAR_STEMS)


def _entry(dtype: str, *shape: int) -> TensorEntry:
    return TensorEntry(dtype, shape, int(np.prod(shape)) * (4 if dtype == "F32" else 1))


def _uint8(rows: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Codes [in, rows], scales [rows] and zero points [rows] of `rows` [rows, in]; zero is a value of its own."""
    low, high = np.minimum(rows.min(axis=1), 0), np.maximum(rows.max(axis=1), 0)
    # A difference in float32 would round twice.
    scale = _nonzero(((high.astype(np.float64) - low) / 255).astype(np.float32))
    zero = np.rint(-low / scale)
    codes = np.clip(np.rint(rows / scale[:, None]) + zero[:, None], 0, 255)
    return codes.astype(np.uint8).T, scale, zero.astype(np.uint8)


def _int4(rows: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Packed codes [in, rows / 2] and scales [blocks, rows]; the largest number of a block is -8 of its scale."""
    outputs, inputs = rows.shape
    blocks = np.pad(rows, ((0, 0), (0, -inputs % BLOCK))).reshape(outputs, -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[..., None], axis=2)
    scale = _nonzero(largest / np.float32(-8))
    codes = np.clip(np.rint(blocks / scale), -8, 7).astype(np.int8).reshape(outputs, -1)[:, :inputs]
    halves = codes.T.view(np.uint8) & 0xF
    return halves[:, 0::2] | halves[:, 1::2] << 4, scale[:, :, 0].T


def _nonzero(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """`scale` with 1 where it is 0, which is where every number is."""
    return np.where(scale == 0, np.float32(1), scale)
