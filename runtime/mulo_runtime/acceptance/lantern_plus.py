"""LANTERN++: nearby codebook entries count for the draft, up to a multiple of its own probability."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import Distribution
from mulo_runtime.acceptance.distributions import normalise_positive
from mulo_runtime.acceptance.nearby_mass import fill_without, nearby_mass

__all__ = ["LanternPlus", "LanternPlusGeneral"]

_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class LanternPlus:
    """As `Lantern`, with a sum over A(x) below lambda P(x) (arXiv 2502.06352, as arXiv 2601.09212 restates it).

    The authors' code writes lambda - 1 where the restatement writes lambda; lambda here is the restatement's.

    Attributes:
        neighbours: of every entry the k nearest, itself left out; [V, k].
        multiple: lambda.
    """

    neighbours: NDArray[np.int32]
    multiple: float

    def acceptance(self, target: Distribution, draft: Distribution, token: int, depth: int) -> float:
        """See `ChainRule.acceptance`."""
        return min(1.0, self.relaxed(target, token) / float(draft[token]))

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """See `ChainRule.residual`; as of `Lantern`."""
        counted = self.neighbours[token] if self.relaxed(target, token) > target[token] else _NONE
        fill_without(target, draft, token, counted, out)

    def relaxed(self, target: Distribution, token: int) -> float:
        """P~(x), what P(x) and the entries that count for x have together."""
        own = float(target[token])
        return own + nearby_mass(target, self.neighbours[token], self.multiple * own, reached=False)


@dataclass(frozen=True, slots=True)
class LanternPlusGeneral(LanternPlus):
    """`LanternPlus` with COOL-SD's residual G* = norm([P - Q f]+) = norm([P - min(Q, P~)]+).

    Attributes:
        by_rank: the neighbours, nearest of all entries first; [k, V].
        scratch: working space; [3, V].
    """

    by_rank: NDArray[np.intp] = field(init=False)
    scratch: NDArray[np.float32] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_rank", np.ascontiguousarray(self.neighbours.T, np.intp))
        object.__setattr__(self, "scratch", np.zeros((3, len(self.neighbours)), np.float32))

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """See `ChainRule.residual`."""
        self.relax(target, out)
        np.minimum(draft, out, out=out)
        np.subtract(target, out, out=out)
        normalise_positive(out, target)

    def relax(self, target: Distribution, out: Distribution) -> None:
        """Fill `out` with P~ of every token."""
        sums, bound, term = self.scratch
        np.multiply(target, np.float32(self.multiple), out=bound)
        np.copyto(out, target)
        sums.fill(0)
        for nearby in self.by_rank:
            np.add(sums, np.take(target, nearby, out=term, mode="clip"), out=sums)
            np.add(target, sums, out=out, where=sums < bound)
