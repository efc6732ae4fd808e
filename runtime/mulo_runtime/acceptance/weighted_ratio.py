"""The relaxed rule that COOL-SD and its relatives share (arXiv 2601.09212, equations 6, 9 and 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mulo_runtime.acceptance.chain_rule import Distribution
from mulo_runtime.acceptance.distributions import normalise_positive

__all__ = ["WeightedRatio"]


@dataclass(frozen=True, slots=True)
class WeightedRatio:
    """f = min(1, w P(x) / Q(x)) and G* = norm([P - Q f]+) = norm([P - min(Q, w P)]+).

    G* makes a step with w <= 1 lossless. For w >= 1 it is the vanilla residual norm([P - Q]+) (proposition 1), for
    w < 1 it is not, and the vanilla one leaves the target's distribution.

    Attributes:
        weights: w of every drafted token of a chain.
        residual_kind: "general" for G*, "vanilla" for norm([P - Q]+) whatever w is.
    """

    weights: Sequence[float]
    residual_kind: Literal["general", "vanilla"] = "general"

    def acceptance(self, target: Distribution, draft: Distribution, token: int, depth: int) -> float:
        """See `ChainRule.acceptance`."""
        return min(1.0, self.weights[depth] * float(target[token]) / float(draft[token]))

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """See `ChainRule.residual`."""
        np.copyto(out, draft)
        if self.residual_kind == "general":
            np.multiply(target, np.float32(self.weights[depth]), out=out)
            np.minimum(draft, out, out=out)
        np.subtract(target, out, out=out)
        normalise_positive(out, target)
