"""How far a graph's output lies from its reference's, as the manifest records it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from mulo_engines.manifest import ParityRecord
from numpy.typing import NDArray

__all__ = ["Pair", "differing_share", "largest_difference", "relative_error"]

Pair = tuple[NDArray[Any], NDArray[Any]]
"""What a graph gave, and what it should have given."""

_BEYOND = float(np.finfo(np.float64).max)
"""Stands for NaN, infinity and another shape, for which a manifest has no number: it is within no tolerance."""


def relative_error(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """||found - expected|| / ||expected|| in the 2-norm, over all `pairs` together."""
    norms = [(np.linalg.norm(found - expected), np.linalg.norm(expected)) for found, expected in _flat(pairs)]
    difference, size = np.linalg.norm(norms, axis=0).tolist()
    return _record(graph, f"relative error of {what}", difference / (size or 1.0), tolerance)


def differing_share(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """The share of values that are not equal, over all `pairs` together."""
    counts = [(int(np.count_nonzero(found != expected)), expected.size) for found, expected in _flat(pairs)]
    differing, all_values = np.sum(counts, axis=0).tolist()
    return _record(graph, f"share of differing {what}", differing / all_values, tolerance)


def largest_difference(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """The largest |found - expected| over all `pairs`."""
    largest = np.max([np.abs(found - expected).max() for found, expected in _flat(pairs)]).item()
    return _record(graph, f"largest difference of {what}", largest, tolerance)


def _flat(pairs: Iterable[Pair]) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The values of one pair after another; what has another shape than expected is NaN."""
    for found, expected in pairs:
        same = found.shape == expected.shape
        values = found.astype(np.float64).ravel() if same else np.full(expected.size, np.nan)
        yield values, expected.astype(np.float64).ravel()


def _record(graph: str, metric: str, value: float, tolerance: float) -> ParityRecord:
    return ParityRecord(graph=graph, metric=metric, value=value if np.isfinite(value) else _BEYOND, tolerance=tolerance)
