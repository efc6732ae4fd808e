"""What the watch over a step's memory sees."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from mmap import mmap

import numpy as np
from mulo_tools.bench.memory_watch import PythonPeak, StepWatch, largest_recurring, resident_bytes

_NATIVE = """
import ctypes
from mulo_tools.bench.memory_watch import FreshPages, map_large_blocks_afresh

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p

def use(size):
    block = ctypes.c_void_p(library.malloc(size))
    library.memset(block, 1, size)
    library.free(block)

map_large_blocks_afresh(65536)
for size in (2**22, 4096):
    use(size)
    fresh = FreshPages()
    fresh()
    use(size)
    print(fresh())
"""


def test_a_large_native_block_is_seen_each_time_and_a_small_one_is_reused() -> None:
    """In a process of its own, because the C library stays as it is set up here.

    Larger than any hole that an interpreter may have left in its heap: the C library fills those first.
    """
    output = subprocess.run([sys.executable, "-c", _NATIVE], capture_output=True, text=True, check=True).stdout
    large, small = map(int, output.split())
    assert large >= 2**22
    assert small < 65536


def test_an_array_that_lives_within_a_step_is_seen() -> None:
    tracemalloc.start()
    try:
        peak = PythonPeak()
        peak()
        np.zeros(100_000, np.uint8)
        assert peak() >= 100_000
        assert peak() < 10_000
    finally:
        tracemalloc.stop()


def test_a_step_lasts_from_look_to_look_and_nothing_is_cancelled() -> None:
    counts = iter([100, 1, 2])
    watch = StepWatch(lambda: next(counts))
    assert [watch.is_set() for _ in range(3)] == [False] * 3
    assert watch.steps == [1, 2]


def test_what_happens_in_one_run_only_does_not_recur() -> None:
    assert largest_recurring([[0, 9, 3], [8, 0, 3], [0, 0, 4]]) == 3


def test_an_array_that_is_kept_is_resident() -> None:
    before = resident_bytes()
    with mmap(-1, 20_000_000) as fresh:  # An allocator may hand out pages that are resident already.
        kept = np.frombuffer(fresh, np.uint8)
        kept.fill(1)
        assert resident_bytes() - before > kept.nbytes // 2
        del kept
