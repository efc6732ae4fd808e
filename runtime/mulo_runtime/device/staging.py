"""Pinned memory on the way up: written by the host, read by the device some passes later, and then used again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from mulo_engines.stream import Mark, Stream
from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "RUN_AHEAD", "Staging", "aligned"]

RUN_AHEAD = 8
"""Passes that the host may be ahead of the device: enough to never let it idle, few enough to cancel soon."""

ALIGNMENT = 256
"""Bytes to which arrays in a block are aligned, as CUDA allocations are."""


def aligned(size: int) -> int:
    """`size` rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Staging:
    """A ring of pinned memory, of which each pass takes a part.

    Args:
        stream: whose device reads it.
        size: bytes, at least those of the largest part.
        wait: waits for a mark, and counts it.
    """

    def __init__(self, stream: Stream, size: int, wait: Callable[[Mark], None]) -> None:
        self._memory, self._wait = stream.pinned(size), wait
        self._free = deque(stream.mark() for _ in range(RUN_AHEAD))
        self._taken: deque[tuple[Mark, int, int]] = deque()
        self._start = self._stop = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """The next `size` bytes, once the device needs neither them nor more than `RUN_AHEAD` - 1 earlier parts."""
        start = self._stop if self._stop + size <= len(self._memory) else 0
        while self._taken and (not self._free or self._overlaps(start, start + size)):
            self._release()
        self._start, self._stop = start, start + aligned(size)
        return self._memory[start : start + size]

    def commit(self) -> None:
        """Note that everything that reads the part taken last is enqueued."""
        mark = self._free.popleft()
        mark.set()
        self._taken.append((mark, self._start, self._stop))

    def _release(self) -> None:
        mark, _, _ = self._taken.popleft()
        self._wait(mark)
        self._free.append(mark)

    def _overlaps(self, start: int, stop: int) -> bool:
        return any(start < taken_stop and taken_start < stop for _, taken_start, taken_stop in self._taken)
