"""GSD: the ratio of exact speculative sampling, taken of a group of tokens around the draft."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import Distribution
from mulo_runtime.acceptance.distributions import normalise_positive

__all__ = ["Grouped"]


@dataclass(frozen=True, slots=True)
class Grouped:
    """f = min(1, P(C) / Q(C)) and G = norm([P - Q]+) (arXiv 2508.07747, equations 6 and 7).

    C is x and those of its k nearest codebook entries that are as probable as x to within `gap`, of these the `size`
    nearest to x by rank of P. The authors take the 7 tokens on either side of x by rank of the target's logits and drop
    those that are far in probability (0.15) or in the codebook (0.5); a bundle knows which entries are near and not
    how near they are, hence k in place of that distance.

    Attributes:
        neighbours: of every entry the k nearest, itself left out; [V, k].
        size: most tokens of a group.
        gap: how far a member's probability may be from the draft's.
    """

    neighbours: NDArray[np.int32]
    size: int
    gap: float

    def acceptance(self, target: Distribution, draft: Distribution, token: int, depth: int) -> float:
        """See `ChainRule.acceptance`."""
        group = self.group(target, token)
        return min(1.0, float(target[group].sum()) / float(draft[group].sum()))

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """See `ChainRule.residual`."""
        np.subtract(target, draft, out=out)
        normalise_positive(out, target)

    def group(self, target: Distribution, token: int) -> NDArray[np.int32]:
        """C, x first."""
        near = self.neighbours[token]
        near = near[np.abs(target[near] - target[token]) < self.gap]
        # More probable ones rank above x and less probable ones below: half of the group on either side.
        ranked = near[np.argsort(target[near], kind="stable")]
        place = int(np.searchsorted(target[ranked], target[token]))
        half = self.size // 2
        return np.append(np.int32(token), ranked[max(place - half, 0) : place + half])
