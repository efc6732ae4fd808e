"""How far a graph's output lies from its reference's, as the manifest records it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from mulo_engines.manifest import ParityRecord
from numpy.typing import NDArray

__all__ = ["Pair", "differing_share", "largest_difference", "relative_error"]

Pair = tuple[NDArray[Any], NDArray[Any]]
"""What a graph gave, and what it should have given."""


def relative_error(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """||found - expected|| / ||expected|| in the 2-norm, over all `pairs` together."""
    error, size = 0.0, 0.0
    for found, expected in pairs:
        exact = expected.astype(np.float64)
        error += float(np.sum((found.astype(np.float64) - exact) ** 2))
        size += float(np.sum(exact**2))
    value = float(np.sqrt(error / size)) if size else float(np.sqrt(error))
    return ParityRecord(graph=graph, metric=f"relative error of {what}", value=_finite(value), tolerance=tolerance)


def differing_share(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """The share of values that are not equal, over all `pairs` together."""
    differing, count = 0, 0
    for found, expected in pairs:
        differing += int(np.count_nonzero(found != expected))
        count += expected.size
    return ParityRecord(graph=graph, metric=f"share of differing {what}", value=differing / count, tolerance=tolerance)


def largest_difference(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """The largest |found - expected| over all `pairs`."""
    value = max(float(np.abs(found.astype(np.float64) - expected).max()) for found, expected in pairs)
    return ParityRecord(graph=graph, metric=f"largest difference of {what}", value=_finite(value), tolerance=tolerance)


def _finite(value: float) -> float:
    """A manifest has no NaN and no infinity; the largest number is out of every tolerance too."""
    return value if np.isfinite(value) else float(np.finfo(np.float64).max)
