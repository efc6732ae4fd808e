"""Count the page faults of a hundred calls that need 1 MiB of scratch memory each, or of calls that also allocate.

Started with MALLOC_MMAP_THRESHOLD_=65536, so much memory is mapped afresh whenever it is allocated, and touching it
faults 256 times; memory that is kept between calls faults never again.

Usage: python scratch_faults.py GRAPH clean|leaky
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine

CALLS = 100


def main(graph: str, mode: str) -> None:
    """Print the faults of `CALLS` calls after a warm-up."""
    x, y = np.ones((1 << 15, 8), np.float32), np.zeros((1 << 15, 8), np.float32)
    with OnnxRuntimeEngine.load(Path(graph), name="scratch", threads=1) as engine:
        call = engine.bind({"x": x, "y": y})
        for _ in range(5):
            call.run()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(CALLS):
            call.run()
            if mode == "leaky":
                np.ones(1 << 18, np.float32)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
