"""What of a transformer's weights becomes codes and scales, and how these lie in a weights file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.precision import CodeType
from mulo_export.weights import TensorEntry, converted_entry

__all__ = ["BLOCK", "Amax", "input_scale_name", "is_quantized", "quantized_entries", "scale_name"]

Amax = Mapping[str, float]
"""The largest magnitude that enters a linear layer, by the name of its weight; empty where it is not known."""

BLOCK = 32
"""Inputs of a linear layer that share a scale in 4 bits."""
_STORED: Mapping[CodeType, str] = {"int8": "I8", "float8e4m3fn": "F8_E4M3", "int4": "U8"}
"""safetensors' type; two codes of 4 bits share a byte, the first in the lower half."""


def scale_name(weight: str) -> str:
    """The tensor that holds the scales of a quantized weight."""
    return f"{weight}.scale"


def input_scale_name(weight: str) -> str:
    """The tensor that holds the scale of what enters the layer of a quantized weight."""
    return f"{weight}.input_scale"


def is_quantized(record: TensorRecord, codes: CodeType) -> bool:
    """Whether a tensor becomes codes: the matrix of a layer, whose rows consist of whole blocks."""
    matrix = len(record.shape) == 2 and record.name.startswith("layers.")
    return matrix and (codes != "int4" or record.shape[1] % BLOCK == 0)


def quantized_entries(file: TensorFile, codes: CodeType, dtype: str, amax: Amax) -> dict[str, TensorEntry]:
    """The header's entries of what `quantize_weights` writes."""
    return {name: entry for record in file.tensors.values() for name, entry in _entries(record, codes, dtype, amax)}


def _entries(record: TensorRecord, codes: CodeType, dtype: str, amax: Amax) -> Iterator[tuple[str, TensorEntry]]:
    if not is_quantized(record, codes):
        yield record.name, converted_entry(record, dtype)
        return
    rows, columns = record.shape
    stored = (rows, columns // 2) if codes == "int4" else (rows, columns)
    scales = (rows, columns // BLOCK) if codes == "int4" else (rows,)
    yield record.name, TensorEntry(_STORED[codes], stored, stored[0] * stored[1])
    yield scale_name(record.name), TensorEntry("F16", scales, 2 * int(np.prod(scales)))
    if record.name in amax:
        yield input_scale_name(record.name), TensorEntry("F16", (), 2)
