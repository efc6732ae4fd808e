"""What a file of weights holds and where each tensor lies, so that a graph can refer to it in place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mulo_engines.errors import CheckpointError
from numpy.typing import NDArray

__all__ = ["TensorFile", "TensorRecord", "read_tensor_file"]

_HEADER_LIMIT = 100 * 2**20
_PIECE = 2**18
_NUMPY_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    # numpy has no such type: a map holds the bits.
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "u1",
    "I8": "i1",
    "BOOL": "?",
    # Likewise.
    "F8_E4M3": "u1",
}
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "I8": 1, "BOOL": 1, "F8_E4M3": 1}


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor of a file.

    Attributes:
        name: its key.
        dtype: safetensors' name for its type, such as "F32"; a type that safetensors does not know has its own name.
        shape: its dimensions.
        offset: its first byte, counted from the start of the file.
        size: its length in bytes.
        further: first bytes of its other parts, where the file holds it in equal parts along the first axis.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    further: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A file whose header was read and checked; no weight was.

    Attributes:
        path: the file.
        tensors: its records by key.
        metadata: what the file says about the model beside its tensors.
        verbatim: whether it is a safetensors file with these very keys, which may enter a bundle as it is.
    """

    path: Path
    tensors: Mapping[str, TensorRecord]
    metadata: Mapping[str, str]
    verbatim: bool = True

    def only(self, names: Iterable[str]) -> TensorFile:
        """The file as if it held no other tensors than `names`."""
        return replace(self, tensors={name: self.tensors[name] for name in names})

    def array(self, name: str) -> NDArray[Any]:
        """The tensor `name`, mapped from the file; bfloat16 is widened to float32.

        Raises:
            CheckpointError: the file has no such tensor.
        """
        record = self._record(name)
        parts = [_widened(part, record.dtype) for part in self._parts(record)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pieces(self, name: str) -> Iterator[NDArray[Any]]:
        """The values of the tensor `name` in order, some at a time, flat, and mapped and widened like those of `array`.

        Raises:
            CheckpointError: the file has no such tensor.
        """
        record = self._record(name)
        for part in self._parts(record):
            values = part.reshape(-1)
            for first in range(0, values.size, _PIECE):
                yield _widened(values[first : first + _PIECE], record.dtype)

    def _record(self, name: str) -> TensorRecord:
        if name not in self.tensors:
            raise CheckpointError(f"{self.path}: tensor {name!r} is missing", fix="use the checkpoint's original file")
        return self.tensors[name]

    def _parts(self, record: TensorRecord) -> Iterator[NDArray[Any]]:
        """The equal parts in which the file holds a tensor, mapped."""
        offsets = (record.offset, *record.further)
        shape = (record.shape[0] // len(offsets), *record.shape[1:]) if record.further else record.shape
        return (np.memmap(self.path, _NUMPY_TYPES[record.dtype], "r", offset, shape) for offset in offsets)


def read_tensor_file(path: Path) -> TensorFile:
    """Read the header of the safetensors file at `path`.

    Raises:
        CheckpointError: the file is missing, truncated, not safetensors, or its header lies about its tensors.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file", fix="give the path of a checkpoint")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(_HEADER_LIMIT, size - 8):
            raise _not_safetensors(path, f"{size} bytes with a header of {length}")
        text = file.read(length)
    try:
        header = json.loads(text)
    except ValueError as error:
        raise _not_safetensors(path, "a header that is not JSON") from error
    metadata = header.pop("__metadata__", {})
    tensors = {name: _record(path, name, entry, 8 + length, size) for name, entry in header.items()}
    return TensorFile(path, tensors, metadata)


def _widened(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The values that were mapped as `dtype`."""
    return (values.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else values


def _record(path: Path, name: str, entry: dict[str, Any], data_start: int, file_size: int) -> TensorRecord:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise _not_safetensors(path, f"a malformed entry for {name!r}") from error
    if dtype not in _BYTES:
        raise CheckpointError(
            f"{path}: tensor {name!r} has an unsupported type", found=dtype, expected=", ".join(_BYTES)
        )
    expected = int(np.prod(shape, dtype=np.int64)) * _BYTES[dtype]
    if not 0 <= begin <= end <= file_size - data_start or end - begin != expected:
        raise CheckpointError(
            f"{path}: tensor {name!r} does not fit the file, which is truncated or damaged",
            found=f"bytes {begin} to {end} of {file_size - data_start}",
            expected=f"{expected} bytes for {dtype} {list(shape)}",
            fix="download the file again",
        )
    return TensorRecord(name, dtype, shape, data_start + begin, end - begin)


def _not_safetensors(path: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: not a safetensors file",
        found=found,
        expected="a length, a JSON header and the tensors it lists",
        fix="give the checkpoint itself; an interrupted download or an HTML error page looks like this",
    )
