"""The linear schedule that COOL-SD is compared with (arXiv 2601.09212, appendix)."""

from __future__ import annotations

from mulo_runtime.acceptance.weighted_ratio import WeightedRatio

__all__ = ["linear_rsd"]


def linear_rsd(length: int, delta: float, horizon: int) -> WeightedRatio:
    """w_i = delta L v_i / sum_j v_j with v_i = (ell - i) / (ell (ell + 1)), i = 1 .. L: the mean of w is delta."""
    falling = [(horizon - i) / (horizon * (horizon + 1)) for i in range(1, length + 1)]
    return WeightedRatio([delta * length * value / sum(falling) for value in falling])
