"""The probability of codebook entries near a token, as far as a bound allows, and what is left without them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import Distribution
from mulo_runtime.acceptance.distributions import normalise_positive

__all__ = ["fill_without", "nearby_mass"]


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


def fill_without(
    target: Distribution, draft: Distribution, token: int, counted: NDArray[np.int32], out: Distribution
) -> None:
    """Fill `out` with LANTERN's residual, as its authors' code has it.

    Args:
        target: P.
        draft: Q.
        token: x, which was rejected.
        counted: the entries whose mass had counted for x, with all that might have; none of them if none had.
        out: norm([P - Q]+) with Q = 0 for x and `counted`, if there are any. Where x was chosen and not drawn, so that
            Q(x) is 1, norm(P) with P = 0 for x and `counted`.
    """
    chosen = draft[token] == 1
    np.copyto(out, target if chosen else draft)
    out[counted] = 0
    if chosen or len(counted):
        out[token] = 0
    if not chosen:
        np.subtract(target, out, out=out)
    normalise_positive(out, target)
