"""Arithmetic of distributions over a vocabulary, in place: a vocabulary of 16384 is too long to allocate at a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw", "normalise_positive"]


def normalise_positive(weights: NDArray[np.float32], fallback: NDArray[np.float32]) -> None:
    """Make `weights` [V] their positive part, scaled to a sum of 1; where nothing is positive, `fallback`.

    Nothing is positive where a rule accepts with certainty whatever the drafter draws, up to rounding.
    """
    np.maximum(weights, 0, out=weights)
    total = weights.sum(dtype=np.float64)
    if total > 0:
        np.divide(weights, total, out=weights)
    else:
        np.copyto(weights, fallback)


def draw(distribution: NDArray[np.float32], uniform: float) -> int:
    """The first token whose cumulative probability exceeds `uniform` times the total; overwrites `distribution` [V].

    The sampler's graph draws by the same rule, which gives no token of probability 0.
    """
    cumulative = np.cumsum(distribution, out=distribution)
    return int(np.searchsorted(cumulative, np.float32(uniform) * cumulative[-1], side="right"))
