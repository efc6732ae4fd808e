"""Exact speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mulo_runtime.acceptance.chain_rule import Distribution
from mulo_runtime.acceptance.distributions import normalise_positive

__all__ = ["Exact"]


@dataclass(frozen=True, slots=True)
class Exact:
    """f = min(1, P(x) / Q(x)) and G = norm([P - Q]+): what comes out is distributed as P (algorithm 1 of both)."""

    def acceptance(self, target: Distribution, draft: Distribution, token: int, depth: int) -> float:
        """See `ChainRule.acceptance`."""
        return min(1.0, float(target[token]) / float(draft[token]))

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """See `ChainRule.residual`."""
        np.subtract(target, draft, out=out)
        normalise_positive(out, target)
