"""Sizes of the tensors in a weights file, read from its header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from safetensors import SafetensorError, safe_open

from mulo_engines.errors import BundleError

__all__ = ["StoredTensor", "stored_tensors"]

_EXPORT_AGAIN = "copy the bundle again from where it came from, or export it again with `mulo-export`"

_BITS = {"F64": 64, "I64": 64, "F32": 32, "I32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "I8": 8, "U8": 8, "BOOL": 8}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as it lies in its file; 4-bit values are a row of bytes, of type "U8"."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def values(self) -> int:
        """How many numbers of its type it holds."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.values * _BITS[self.dtype] // 8


def stored_tensors(path: Path) -> Mapping[str, StoredTensor]:
    """Every tensor of the safetensors file at `path` by name; no weight is read.

    Raises:
        BundleError: the file is no safetensors file, or holds a type that no graph of mulo reads.
    """
    try:
        with safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            tensors = {name: StoredTensor(part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    except (SafetensorError, OSError) as error:
        raise BundleError(
            f"{path}: the weights cannot be read",
            found=error,
            expected="a safetensors file",
            fix=_EXPORT_AGAIN,
        ) from error
    for name, tensor in tensors.items():
        if tensor.dtype not in _BITS:
            raise BundleError(
                f"{path}: the type of tensor {name!r} is not known",
                found=tensor.dtype,
                expected=", ".join(_BITS),
                fix=_EXPORT_AGAIN,
            )
    return tensors
