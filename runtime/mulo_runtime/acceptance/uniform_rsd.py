"""UniformRSD: the relaxed rule with one weight for the whole chain (arXiv 2601.09212, section 4.2)."""

from __future__ import annotations

from mulo_runtime.acceptance.weighted_ratio import WeightedRatio

__all__ = ["uniform_rsd"]


def uniform_rsd(length: int, delta: float) -> WeightedRatio:
    """w_i = delta for i = 1 .. L."""
    return WeightedRatio([delta] * length)
