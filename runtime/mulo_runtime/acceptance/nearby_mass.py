"""The probability of codebook entries near a token, nearest first, as far as a bound allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import Distribution

__all__ = ["nearby_mass"]


def nearby_mass(target: Distribution, near: NDArray[np.int32], bound: float, *, reached: bool) -> float:
    """The sum of `target` over the longest beginning of `near` whose sum stays within `bound`.

    Args:
        target: P.
        near: codebook entries, nearest first, the token itself not among them; [k].
        bound: what the sum may not exceed.
        reached: whether it may be exactly that.
    """
    sums = np.cumsum(target[near], dtype=np.float64)
    count = int(np.searchsorted(sums, bound, side="right" if reached else "left"))
    return float(sums[count - 1]) if count else 0.0
