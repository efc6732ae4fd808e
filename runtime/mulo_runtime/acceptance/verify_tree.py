"""How a tree of drafted tokens is verified: child after child, with what the rule leaves of P and Q in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import ChainRule
from mulo_runtime.acceptance.distributions import draw, normalise_positive
from mulo_runtime.draft_tree import DraftTree

__all__ = ["Path", "verify_tree"]


class Path(NamedTuple):
    """The nodes that are accepted, one behind another, and the token drawn behind them."""

    nodes: list[int]
    next_token: int


def verify_tree(
    rule: ChainRule,
    branches: DraftTree,
    drawn: NDArray[np.float32] | None,
    target: NDArray[np.float32],
    trials: NDArray[np.float32],
    uniforms: NDArray[np.float32],
    scratch: NDArray[np.float32],
) -> Path:
    """Go down from the root by children that are accepted; where none is, draw from what is left of P.

    A child that is rejected leaves the rule's residual as P, and Q without it, for the next (SpecInfer, arXiv
    2305.09781, algorithm 2; COOL-SD's G* in place of the exact residual). A chosen child counts as drawn for sure.

    Args:
        rule: accepts and replaces.
        branches: the drafted tokens.
        drawn: Q behind every node that has children, which were drawn from it without replacement, by `branches.rows`;
            [rows, V]; None where children were chosen.
        target: P behind the root and behind every node; [1 + nodes, V].
        trials: numbers in [0, 1) that decide on the children, by depth and rank; [depths, width].
        uniforms: numbers in [0, 1) that draw what follows, by depth; [depths].
        scratch: overwritten; [3, V].
    """
    left, draft, spare = scratch
    path: list[int] = []
    while True:
        node, depth = path[-1] if path else -1, len(path)
        np.copyto(left, target[node + 1])
        children = branches.children(node)
        if children and drawn is not None:
            np.copyto(draft, drawn[branches.rows[node]])
        for rank, child in enumerate(children):
            token = branches.token(child)
            if drawn is None:
                draft.fill(0)
                draft[token] = 1
            if trials[depth, rank] < rule.acceptance(left, draft, token, depth):
                path.append(child)
                break
            rule.residual(left, draft, token, depth, spare)
            np.copyto(left, spare)
            draft[token] = 0
            normalise_positive(draft, draft)
        else:
            return Path(path, draw(left, float(uniforms[depth])))
