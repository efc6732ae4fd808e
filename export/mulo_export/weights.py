"""Bring a weights file into the bundle: as it is, or tensor by tensor in another type."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from mulo_engines.errors import CheckpointError
from numpy.typing import NDArray

from mulo_export.ahead import map_ahead
from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord
from mulo_export.hashing import WrittenFile

__all__ = [
    "TYPE_BYTES",
    "Progress",
    "TensorEntry",
    "cast_pieces",
    "cast_values",
    "convert_weights",
    "converted_entry",
    "copy_weights",
    "map_rows",
    "write_tensors",
]

Progress = Callable[[int], None]
"""Called with the number of bytes just written."""

_Result = TypeVar("_Result")

_CHUNK = 2**20
_ROWS = 512
TYPE_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""Bytes of one value of the floating-point types that a bundle's weights can have."""
_LARGEST = {"F32": float(np.finfo(np.float32).max), "F16": float(np.finfo(np.float16).max), "BF16": 255 * 2.0**120}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """What the header of a safetensors file says of one tensor, but for its place.

    Attributes:
        dtype: the format's name for its type, such as "F16".
        shape: its dimensions.
        size: its length in bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int


def copy_weights(source: Path, destination: Path, progress: Progress) -> WrittenFile:
    """Copy `source` once, sharing its blocks where the filesystem can (`copy_file_range`), and hash what arrived.

    Raises:
        OSError: the file cannot be read or written.
    """
    # A new buffer for every chunk would take longer to map than to hash.
    digest, size, chunk = hashlib.sha256(), 0, memoryview(bytearray(_CHUNK))
    with source.open("rb") as reader, destination.open("xb+") as writer:
        while count := _copy_chunk(reader.fileno(), writer.fileno(), size):
            digest.update(chunk[: os.preadv(writer.fileno(), [chunk[:count]], size)])
            size += count
            progress(count)
    return WrittenFile(size, digest.hexdigest())


def convert_weights(file: TensorFile, destination: Path, dtype: str, progress: Progress) -> WrittenFile:
    """Rewrite every floating-point tensor of `file` as `dtype` (F32, F16 or BF16), a few pieces in memory at a time.

    Raises:
        CheckpointError: a value is not finite, or too large for float16.
    """
    entries = {name: converted_entry(record, dtype) for name, record in file.tensors.items()}
    values = (piece for name, entry in entries.items() for piece in cast_pieces(file, name, entry.dtype))
    return write_tensors(destination, entries, values, file.metadata, progress)


def converted_entry(record: TensorRecord, dtype: str) -> TensorEntry:
    """The entry of a tensor as `dtype`; a type that is not floating-point stays."""
    if record.dtype not in TYPE_BYTES:
        return TensorEntry(record.dtype, record.shape, record.size)
    return TensorEntry(dtype, record.shape, record.size // TYPE_BYTES[record.dtype] * TYPE_BYTES[dtype])


def cast_values(path: Path, name: str, values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """`values` as `dtype`; bfloat16 comes as its bits, and a type that is not floating-point stays.

    Args:
        path: the file that they come from, for the message.
        name: likewise, the tensor.
        values: of any type.
        dtype: safetensors' name for the type.

    Raises:
        CheckpointError: a value is not finite, or too large for float16.
    """
    if dtype not in TYPE_BYTES:
        return values
    wide = np.asarray(values, np.float32)
    _refuse_overflow(path, name, wide, _LARGEST[dtype])
    if dtype == "BF16":
        return _round_to_bfloat16(wide)
    return wide.astype(np.float16 if dtype == "F16" else np.float32, copy=False)


def cast_pieces(file: TensorFile, name: str, dtype: str) -> Iterator[NDArray[Any]]:
    """The values of a tensor as `dtype`, flat, some at a time; see `cast_values`."""
    return map_ahead(lambda piece: cast_values(file.path, name, piece, dtype), file.pieces(name))


def map_rows(
    function: Callable[[NDArray[Any]], _Result], file: TensorFile, record: TensorRecord, dtype: str
) -> Iterator[_Result]:
    """What `function` makes of the rows of a matrix as `dtype`, some at a time; see `cast_values`."""
    values = file.array(record.name)
    blocks = (values[first : first + _ROWS] for first in range(0, len(values), _ROWS))
    return map_ahead(lambda rows: function(cast_values(file.path, record.name, rows, dtype)), blocks)


def write_tensors(
    destination: Path,
    entries: Mapping[str, TensorEntry],
    values: Iterable[NDArray[Any]],
    metadata: Mapping[str, str],
    progress: Progress,
) -> WrittenFile:
    """Write a safetensors file without ever holding more than one of `values`.

    Args:
        destination: the file, which must not exist.
        entries: the header's entries.
        values: the tensors in the same order, each whole or in pieces, of its entry's size.
        metadata: the header's `__metadata__`.
        progress: told of every one of `values` that was written.
    """
    header = _header(entries, metadata)
    digest, size = hashlib.sha256(header), len(header)
    with destination.open("xb") as file:
        file.write(header)
        for value in values:
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
            file.write(data)
            digest.update(data)
            size += data.nbytes
            progress(data.nbytes)
    return WrittenFile(size, digest.hexdigest())


def _header(entries: Mapping[str, TensorEntry], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, entry in entries.items():
        end = offset + entry.size
        header[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _copy_chunk(reader: int, writer: int, offset: int) -> int:
    try:
        return os.copy_file_range(reader, writer, _CHUNK, offset, offset)
    except OSError:
        # Not every pair of filesystems can.
        return os.pwrite(writer, os.pread(reader, _CHUNK, offset), offset)


def _refuse_overflow(path: Path, name: str, values: NDArray[np.float32], limit: float) -> None:
    largest = float(np.abs(values).max(initial=0.0))
    if not largest <= limit:
        raise CheckpointError(
            f"{path}: tensor {name!r} does not fit the asked precision",
            found=f"a magnitude of {largest:g}",
            expected=f"at most {limit:g}",
            fix="give --precision bf16 or fp32; a value that is not finite means a damaged checkpoint",
        )


def _round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even; `values` are finite."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
