"""Intervals of shares, bounds of paired differences, and the distance between two clouds of features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["difference_lower_bound", "frechet_distance", "wilson_interval"]

_TWO_SIDED = 1.959964
_ONE_SIDED = 1.644854
"""Normal quantiles for 95 % confidence."""

Features = NDArray[np.float64]


def wilson_interval(successes: int, count: int) -> tuple[float, float]:
    """95 % confidence interval of a share (Wilson 1927).

    Args:
        successes: how many of `count` succeeded.
        count: at least 1.
    """
    share, z = successes / count, _TWO_SIDED
    centre = share + z**2 / (2 * count)
    spread = z * (share * (1 - share) / count + z**2 / (4 * count**2)) ** 0.5
    divisor = 1 + z**2 / count
    return max(0.0, (centre - spread) / divisor), min(1.0, (centre + spread) / divisor)


def difference_lower_bound(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> float:
    """One-sided 95 % lower bound of the difference of two shares measured on the same cases.

    Half a case is added to each cell of the 2 x 2 table before the normal approximation, which keeps the bound honest
    where few cases differ (Agresti and Min, Statistics in Medicine 24, 2005).

    Args:
        ours: whether we succeeded, by case.
        theirs: whether they succeeded, by case.
    """
    count = len(ours) + 2
    won, lost = np.count_nonzero(ours & ~theirs) + 0.5, np.count_nonzero(theirs & ~ours) + 0.5
    variance = ((won + lost) - (won - lost) ** 2 / count) / count**2
    return float((won - lost) / count - _ONE_SIDED * variance**0.5)


def frechet_distance(first: Features, second: Features) -> float:
    """Frechet distance between the normal distributions fitted to two clouds of features.

    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1^1/2 C2 C1^1/2)^1/2) (Dowson and Landau 1982).

    Args:
        first: [n, features], n at least 2.
        second: [m, features], m at least 2.
    """
    means = first.mean(0) - second.mean(0)
    cov_first, cov_second = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    root = _square_root(cov_first)
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(root @ cov_second @ root), 0, None)).sum()
    return float(means @ means + np.trace(cov_first) + np.trace(cov_second) - 2 * shared)


def _square_root(matrix: Features) -> Features:
    """The symmetric square root of a covariance."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T)
