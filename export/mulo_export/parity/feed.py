"""Parity of the token log, whose reference is two numpy assignments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from mulo_engines.manifest import ParityRecord
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine

from mulo_export.describe import graph_file
from mulo_export.parity.metrics import differing_share

__all__ = ["measure_feed"]


def measure_feed(folder: Path, rng: np.random.Generator) -> Iterator[ParityRecord]:
    """Write two tokens into logs of seven and read four; of two images, one has met a NaN."""
    log, new_tokens = rng.integers(100, size=(2, 7)), rng.integers(100, 200, size=(2, 2))
    write = np.array([rng.choice(7, 2, replace=False) for _ in range(2)])
    read = rng.integers(7, size=(2, 4))
    inputs = {
        "token_log": log,
        "new_tokens": new_tokens,
        "write_positions": write,
        "read_positions": read,
        "probability": np.array([[0.25, 0.5], [0.5, np.nan]], np.float32),
        "witness": np.ones(2, np.float32),
    }
    with OnnxRuntimeEngine.load(folder / graph_file("feed"), name="feed", threads=1) as engine:
        found = engine.run_once(inputs)
    expected = log.copy()
    np.put_along_axis(expected, write, new_tokens, axis=1)
    tokens = np.tile(np.take_along_axis(expected, read, axis=1), (2, 1))
    witnessed = np.isnan(found["witness_out"]), np.array([False, True])
    pairs = [(found["token_log_out"], expected), (found["token_ids"], tokens), witnessed]
    yield differing_share("feed", "tokens", pairs, 0)
