"""The buffers of a model's KV cache, of which a growing part is bound."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from mulo_engines.cache_tensors import cache_names
from numpy.typing import NDArray

__all__ = ["CacheBuffers"]


class CacheBuffers:
    """Keys and values of every layer, each in one buffer of the largest size, [B, H, S, hd] for the bound S.

    Args:
        layers: number of layers.
        batch: the largest B.
        heads: H.
        slots: the largest S.
        head_dim: hd.
        dtype: element type.
    """

    __slots__ = ("_buffers", "_head_dim", "_heads", "_slots")

    def __init__(self, layers: int, batch: int, heads: int, slots: int, head_dim: int, dtype: np.dtype[Any]) -> None:
        size = batch * heads * slots * head_dim
        self._buffers: Mapping[str, NDArray[Any]] = {name: np.zeros(size, dtype) for name in cache_names(layers)}
        self._heads, self._head_dim = heads, head_dim
        self._slots = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self._buffers.values())

    def views(self, batch: int, slots: int) -> dict[str, NDArray[Any]]:
        """The part that is bound at S = `slots`, by the names of the graph's inputs."""
        shape = (batch, self._heads, slots, self._head_dim)
        return {name: buffer[: np.prod(shape, dtype=np.int64)].reshape(shape) for name, buffer in self._buffers.items()}

    def restart(self) -> None:
        """Take whatever the buffers hold as not written; their content stays finite."""
        self._slots = 0

    def zero(self) -> None:
        """Overwrite everything: a NaN in a slot that is masked would still poison what attends past it."""
        for buffer in self._buffers.values():
            buffer.fill(0)

    def grow(self, batch: int, slots: int) -> None:
        """Move what was written at the previous S to where it belongs at S = `slots`; allocates nothing."""
        if self._slots:
            rows = batch * self._heads
            for buffer in self._buffers.values():
                _restride(buffer, rows, self._slots * self._head_dim, slots * self._head_dim)
        self._slots = slots

    @property
    def slots(self) -> int:
        """The S at which the buffers are laid out, 0 after a restart."""
        return self._slots


def _restride(buffer: NDArray[Any], rows: int, old: int, new: int) -> None:
    """Spread `rows` rows of `old` elements to a pitch of `new`, the last first so that none is overwritten unread."""
    start, width = buffer.ctypes.data, buffer.itemsize
    for row in range(rows - 1, 0, -1):
        ctypes.memmove(start + row * new * width, start + row * old * width, old * width)
