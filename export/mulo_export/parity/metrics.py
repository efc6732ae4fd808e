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

_BEYOND = float(np.finfo(np.float64).max)
"""Stands for NaN, infinity and another shape, for which a manifest has no number: it is within no tolerance."""


def relative_error(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """||found - expected|| / ||expected|| in the 2-norm, over all `pairs` together."""
    found, expected = _flat(pairs)
    size = float(np.linalg.norm(expected))
    value = float(np.linalg.norm(found - expected)) / (size or 1.0)
    return _record(graph, f"relative error of {what}", value, tolerance)


def differing_share(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """The share of values that are not equal, over all `pairs` together."""
    found, expected = _flat(pairs)
    return _record(graph, f"share of differing {what}", float(np.mean(found != expected)), tolerance)


def largest_difference(graph: str, what: str, pairs: Iterable[Pair], tolerance: float) -> ParityRecord:
    """The largest |found - expected| over all `pairs`."""
    found, expected = _flat(pairs)
    return _record(graph, f"largest difference of {what}", float(np.abs(found - expected).max()), tolerance)


def _flat(pairs: Iterable[Pair]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All values found and all expected; what has another shape than expected is NaN."""
    found, expected = [], []
    for given, wanted in pairs:
        same = given.shape == wanted.shape
        found.append(given.astype(np.float64).ravel() if same else np.full(wanted.size, np.nan))
        expected.append(wanted.astype(np.float64).ravel())
    return np.concatenate(found), np.concatenate(expected)


def _record(graph: str, metric: str, value: float, tolerance: float) -> ParityRecord:
    return ParityRecord(graph=graph, metric=metric, value=value if np.isfinite(value) else _BEYOND, tolerance=tolerance)
