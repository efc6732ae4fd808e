"""The linear layers of a transformer in the form that NVIDIA's builders read.

Codes are symmetric, for the parser takes no zero point but 0. A weight [out, in] has a scale for every output, or, in
4 bits, for every block of inputs. Where the largest input of a layer is known, a scale of its own lets the builder
multiply codes with codes. The projection onto the vocabulary keeps its floating-point weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mulo_export.calibration import InputRange
from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.codes import BLOCK, Amax, input_scale_name, scale_name
from mulo_export.precision import CodeType
from mulo_export.weights import TensorEntry, cast_pieces, converted_entry, map_rows

__all__ = ["quantized_inputs", "tensorrt_entries", "tensorrt_values"]

Quantizer = Callable[[NDArray[np.float32]], tuple[NDArray[Any], NDArray[np.float16]]]
"""Codes and scales of a weight."""

_LARGEST: Mapping[CodeType, float] = {"int8": 127, "float8e4m3fn": 448, "int4": 7}
_STORED: Mapping[CodeType, str] = {"int8": "I8", "float8e4m3fn": "F8_E4M3", "int4": "U8"}
"""safetensors' type; two codes of 4 bits share a byte, the first in the lower half."""
_LARGEST_ERROR = 0.05
"""Of an input that becomes int8, relative to its root mean square: a step is amax / 127, its error step / sqrt(12)."""
_SMALLEST_SCALE = np.finfo(np.float16).smallest_subnormal
_SHRINKS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
"""Scales that are tried for a block of 4-bit codes: clipping its largest weight may serve the others better."""


def _is_quantized(record: TensorRecord, codes: CodeType) -> bool:
    """Whether a tensor becomes codes: the matrix of a layer, whose rows consist of whole blocks."""
    matrix = len(record.shape) == 2 and record.name.startswith("layers.")
    return matrix and (codes != "int4" or record.shape[1] % BLOCK == 0)


def quantized_inputs(ranges: Mapping[str, InputRange], codes: CodeType) -> Amax:
    """The layers of `ranges` whose inputs may become codes; never one that nothing entered.

    Steps of int8 are equal, so that a few large values leave too few of them to all others; what SwiGLU makes is so.
    Its layers keep floating-point inputs. Steps of float8 grow with the value.
    """
    steps = _LARGEST[codes] * np.sqrt(12)
    limit = np.inf if codes == "float8e4m3fn" else _LARGEST_ERROR * steps
    return {name: found.amax for name, found in ranges.items() if 0 < found.amax <= limit * found.rms}


def tensorrt_entries(record: TensorRecord, codes: CodeType, amax: Amax) -> Iterator[tuple[str, TensorEntry]]:
    """The header's entries of what a tensor becomes; what is not quantized becomes float16.

    Args:
        record: the tensor.
        codes: type of the codes.
        amax: inputs of the layers, which are quantized too where they are known.
    """
    if not _is_quantized(record, codes):
        yield record.name, converted_entry(record, "F16")
        return
    rows, columns = record.shape
    stored = (rows, columns // 2) if codes == "int4" else (rows, columns)
    scales = (rows, columns // BLOCK) if codes == "int4" else (rows,)
    yield record.name, TensorEntry(_STORED[codes], stored, stored[0] * stored[1])
    yield scale_name(record.name), TensorEntry("F16", scales, 2 * int(np.prod(scales)))
    if record.name in amax:
        yield input_scale_name(record.name), TensorEntry("F16", (), 2)


def tensorrt_values(file: TensorFile, record: TensorRecord, codes: CodeType, amax: Amax) -> Iterator[NDArray[Any]]:
    """The arrays of `tensorrt_entries`, whole or in pieces.

    Raises:
        CheckpointError: a value is not finite, or too large for float16.
    """
    if not _is_quantized(record, codes):
        yield from cast_pieces(file, record.name, "F16")
        return
    for arrays in zip(*map_rows(partial(_quantized, codes), file, record, "F16"), strict=True):
        yield np.concatenate(arrays)
    if record.name in amax:
        yield _scales(np.float32(amax[record.name]), codes)


def _quantized(codes: CodeType, rows: NDArray[np.float16]) -> tuple[NDArray[Any], NDArray[np.float16]]:
    return _QUANTIZERS[codes](rows.astype(np.float32))


def _int8(values: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    scales = _scales(np.abs(values).max(axis=1), "int8")
    return _rounded(values, scales[:, None], "int8"), scales


def _float8(values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    scales = _scales(np.abs(values).max(axis=1), "float8e4m3fn")
    return _scaled(values, scales[:, None]).astype(ml_dtypes.float8_e4m3fn).view(np.uint8), scales


def _int4(values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    blocks = values.reshape(len(values), -1, BLOCK)
    scales = _best_scales(blocks)
    halves = _rounded(blocks, scales[..., None], "int4").reshape(values.shape).view(np.uint8) & np.uint8(0xF)
    return halves[:, 0::2] | halves[:, 1::2] << np.uint8(4), scales


def _best_scales(blocks: NDArray[np.float32]) -> NDArray[np.float16]:
    """Of the scales that are tried for each block, the one with the least squared error."""
    amax = np.abs(blocks).max(axis=-1)
    best, least = _scales(amax, "int4"), np.full(amax.shape, np.inf, np.float32)
    for shrink in _SHRINKS:
        scales = _scales(amax * np.float32(shrink), "int4")
        rounded = _rounded(blocks, scales[..., None], "int4") * scales[..., None].astype(np.float32)
        error = np.square(rounded - blocks).sum(axis=-1)
        best, least = np.where(error < least, scales, best), np.minimum(error, least)
    return best


def _scales(amax: NDArray[np.float32] | np.float32, codes: CodeType) -> NDArray[np.float16]:
    return np.maximum(np.asarray(amax / _LARGEST[codes], np.float16), _SMALLEST_SCALE)


def _rounded(values: NDArray[np.float32], scales: NDArray[np.float16], codes: CodeType) -> NDArray[np.int8]:
    limit = _LARGEST[codes]
    return np.clip(np.rint(_scaled(values, scales)), -limit, limit).astype(np.int8)


def _scaled(values: NDArray[np.float32], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    return np.divide(values, scales, dtype=np.float32)


_QUANTIZERS: Mapping[CodeType, Quantizer] = {"int8": _int8, "float8e4m3fn": _float8, "int4": _int4}
