"""Quantize the linear layers of a transformer: rewrite its weights tensor by tensor, straight from the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.codes import Amax
from mulo_export.hashing import WrittenFile
from mulo_export.precision import Codes
from mulo_export.quantize_for_onnxruntime import onnxruntime_entries, onnxruntime_values
from mulo_export.quantize_for_tensorrt import tensorrt_entries, tensorrt_values
from mulo_export.weights import Progress, TensorEntry, write_tensors

__all__ = ["quantize_weights", "quantized_entries"]


def quantize_weights(file: TensorFile, destination: Path, codes: Codes, amax: Amax, progress: Progress) -> WrittenFile:
    """Rewrite `file` with its linear layers as codes and scales, and everything else in the form's type.

    Args:
        file: the checkpoint.
        destination: the weights file, which must not exist.
        codes: their type and form.
        amax: inputs of the layers, which NVIDIA's form quantizes too where they are known.
        progress: told of every tensor written.

    Raises:
        CheckpointError: a value is not finite or too large for its type, or codes of 4 bits cannot be packed.
    """
    values = (value for record in file.tensors.values() for value in _values(file, record, codes, amax))
    return write_tensors(destination, quantized_entries(file, codes, amax), values, file.metadata, progress)


def quantized_entries(file: TensorFile, codes: Codes, amax: Amax) -> dict[str, TensorEntry]:
    """The header's entries of what `quantize_weights` writes."""
    return {name: entry for record in file.tensors.values() for name, entry in _entries(record, codes, amax)}


def _entries(record: TensorRecord, codes: Codes, amax: Amax) -> Iterator[tuple[str, TensorEntry]]:
    if codes.form == "onnxruntime":
        return onnxruntime_entries(record, codes.dtype)
    return tensorrt_entries(record, codes.dtype, amax)


def _values(file: TensorFile, record: TensorRecord, codes: Codes, amax: Amax) -> Iterator[NDArray[Any]]:
    if codes.form == "onnxruntime":
        return onnxruntime_values(file, record, codes.dtype)
    return tensorrt_values(file, record, codes.dtype, amax)
