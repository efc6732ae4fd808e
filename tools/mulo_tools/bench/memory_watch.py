"""What this process allocates between two passes, as Python and the kernel tell it; Linux with glibc."""

from __future__ import annotations

import ctypes
import resource
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

__all__ = ["FreshPages", "PythonPeak", "StepWatch", "largest_recurring", "map_large_blocks_afresh", "resident_bytes"]

_PAGE = resource.getpagesize()
_M_MMAP_THRESHOLD = -3
_PR_SET_THP_DISABLE = 41


def map_large_blocks_afresh(size: int) -> None:
    """Have the C library map every block of `size` bytes or more anew, and unmap it when it is freed.

    No such block can then be used without a page fault for each of its pages, which `FreshPages` counts. Huge pages,
    which need fewer faults, are switched off for this process.
    """
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_THRESHOLD, size)
    library.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def resident_bytes() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


class StepWatch(Event):
    """A cancel signal that is never set: decoders look at it before every pass, and so mark the steps.

    Args:
        allocated: tells the bytes allocated since it was asked before.

    Attributes:
        steps: the bytes of every step, from a look to the next; what came before the first look is left out.
    """

    def __init__(self, allocated: Callable[[], int]) -> None:
        super().__init__()
        self.steps: list[int] = []
        self._allocated = allocated
        self._started = False

    def is_set(self) -> bool:
        """False."""
        allocated = self._allocated()
        if self._started:
            self.steps.append(allocated)
        self._started = True
        return False


class PythonPeak:
    """Asked for it, tells how many more bytes Python's objects took at most than when it was asked before.

    `tracemalloc` must be running.
    """

    def __init__(self) -> None:
        self._before = tracemalloc.get_traced_memory()[0]

    def __call__(self) -> int:
        """Bytes."""
        peak = tracemalloc.get_traced_memory()[1] - self._before
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        return peak


class FreshPages:
    """Asked for it, tells how many bytes of memory were mapped and touched since it was asked before."""

    def __init__(self) -> None:
        self._before = _faults()

    def __call__(self) -> int:
        """Bytes; a multiple of the page size."""
        now = _faults()
        fresh, self._before = now - self._before, now
        return fresh * _PAGE


def largest_recurring(runs: Sequence[Sequence[int]]) -> int:
    """The most bytes that one step takes in each of several equal runs; what the system does now and then drops out."""
    recurring: list[int] = [min(step) for step in zip(*runs, strict=True)]
    return max(recurring)


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
