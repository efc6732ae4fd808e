"""COOL-SD: a relaxed rule whose weight is annealed along the chain (arXiv 2601.09212, section 4.2, equation 12)."""

from __future__ import annotations

from math import exp
from typing import Literal

from mulo_runtime.acceptance.weighted_ratio import WeightedRatio

__all__ = ["cool_sd"]


def cool_sd(length: int, delta: float, nu: float, residual: Literal["general", "vanilla"] = "general") -> WeightedRatio:
    """w_i = delta exp(-nu i - mu) for i = 1 .. L, with mu such that sum_i exp(-nu i - mu) = L: the mean of w is delta.

    With nu = 0.7 and L = 5, the later weights are below 1, where only the general residual is right.
    """
    decay = [exp(-nu * i) for i in range(1, length + 1)]
    return WeightedRatio([delta * length * value / sum(decay) for value in decay], residual)
