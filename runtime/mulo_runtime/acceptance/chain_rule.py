"""What a rule decides that knows the distributions of the target and the drafter, and how a chain is verified by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.distributions import draw

__all__ = ["ChainRule", "Distribution", "Verdict", "verify_chain"]

Distribution = NDArray[np.float32]
"""Probabilities of all tokens; [V]."""


class ChainRule(Protocol):
    """Accepts a drafted token with some probability, and says what is drawn where it is rejected.

    P is the target's distribution, Q the one that the token was drawn from, x the token. `depth` counts the drafted
    tokens before x in its chain, from 0: the papers' i is `depth` + 1.
    """

    def acceptance(self, target: Distribution, draft: Distribution, token: int, depth: int) -> float:
        """f, the probability with which x is accepted."""

    def residual(self, target: Distribution, draft: Distribution, token: int, depth: int, out: Distribution) -> None:
        """Fill `out` with the distribution G that the token in place of a rejected x is drawn from."""


class Verdict(NamedTuple):
    """How many tokens of a chain are accepted, and what stands in place of the next; None where all are accepted."""

    accepted: int
    replacement: int | None


def verify_chain(
    rule: ChainRule,
    target: NDArray[np.float32],
    draft: NDArray[np.float32],
    tokens: Sequence[int],
    trials: NDArray[np.float32],
    uniforms: NDArray[np.float32],
    scratch: Distribution,
) -> Verdict:
    """Accept drafted tokens one after another up to the first that is rejected (arXiv 2211.17192, algorithm 1).

    Args:
        rule: accepts and replaces.
        target: P at every token; [L, V].
        draft: Q at every token; [L, V].
        tokens: the drafted tokens; L.
        trials: numbers in [0, 1) that decide on acceptance; [L].
        uniforms: numbers in [0, 1) that draw replacements; [L].
        scratch: overwritten; [V].
    """
    for depth, token in enumerate(tokens):
        if trials[depth] >= rule.acceptance(target[depth], draft[depth], token, depth):
            rule.residual(target[depth], draft[depth], token, depth, scratch)
            return Verdict(depth, draw(scratch, float(uniforms[depth])))
    return Verdict(len(tokens), None)
