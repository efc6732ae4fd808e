"""LANTERN: nearby codebook entries count for the draft, as far as the distribution is moved by delta at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import Distribution
from mulo_runtime.acceptance.nearby_mass import fill_without, nearby_mass

__all__ = ["Lantern"]

_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Lantern:
    """f = min(1, P~(x) / Q(x)) with P~(x) = P(x) + sum of P over A(x) (arXiv 2410.03355, equations 4 to 6).

    A(x) are the nearest of x's k nearest entries whose sum is at most delta: the total variation between P and the
    distribution in which x has taken their mass. Where x is rejected, G = norm([P - Q]+), in which Q is 0 for x and all
    k entries if any had counted: the residual of the authors' code, not of a theorem. Where x was chosen and not drawn
    (Q is 1 there), their code has G = norm(P) without x and, if any had counted, without its k entries.

    Nearness is that of the normalised codebook, which is what a decoder sees; the authors' table is of the raw one.

    Attributes:
        neighbours: of every entry the k nearest, itself left out; [V, k].
        delta: the bound.
    """

    neighbours: NDArray[np.int32]
    delta: float

    def acceptance(self, target: Distribution, draft: Distribution, token: int, depth: int) -> float:
        """See `ChainRule.acceptance`."""
        return min(1.0, (float(target[token]) + self._nearby(target, token)) / float(draft[token]))

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """See `ChainRule.residual`."""
        counted = self.neighbours[token] if self._nearby(target, token) > 0 else _NONE
        fill_without(target, draft, token, counted, out)

    def _nearby(self, target: Distribution, token: int) -> float:
        return nearby_mass(target, self.neighbours[token], self.delta, reached=True)
