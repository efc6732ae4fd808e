"""Run a cache update whose untouched pages may only be read, so that writing more than the new slots is fatal.

Usage: python protected_cache.py GRAPH in-place|separate
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
from mulo_engines.engine import address
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from numpy.typing import NDArray

PAGES, WRITABLE = 16, 5
SLOTS_PER_PAGE = mmap.PAGESIZE // 16


def protected_cache() -> NDArray[np.float32]:
    """A cache [1, 1, S, 4] of zeros of which only one page may be written."""
    cache = np.frombuffer(mmap.mmap(-1, PAGES * mmap.PAGESIZE), np.float32).reshape(1, 1, -1, 4)
    libc = ctypes.CDLL(None, use_errno=True)
    for page in set(range(PAGES)) - {WRITABLE}:
        start = ctypes.c_void_p(address(cache) + page * mmap.PAGESIZE)
        assert libc.mprotect(start, mmap.PAGESIZE, mmap.PROT_READ) == 0
    return cache


def main(graph: str, mode: str) -> None:
    """Write two slots into the middle of the writable page."""
    cache = protected_cache()
    source = cache if mode == "in-place" else np.zeros_like(cache)
    update = np.ones((1, 1, 2, 4), np.float32)
    index = np.array([WRITABLE * SLOTS_PER_PAGE + 7])
    with OnnxRuntimeEngine.load(Path(graph), name="cache", threads=1) as engine:
        engine.bind({"cache": source, "cache_out": cache, "update": update, "write_index": index}).run()
    assert np.array_equal(np.nonzero(cache[0, 0, :, 0])[0], [index[0], index[0] + 1])
    print("written", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
