"""Trees of drafted tokens: their published shape, and what a pass over one must see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["STATIC_CHILDREN", "DraftTree", "Node", "static_nodes"]

STATIC_CHILDREN: Sequence[Sequence[int]] = ((4,), (3, 2, 2, 1), (3, 2, 2, 1), (3,), (2,))
"""How many children EAGLE-1's static tree of 25 nodes gives, level by level, to its first nodes.

The paths are those of `mc_sim_7b_63` (arXiv 2401.15077, as LANTERN and COOL-SD use it); nodes are in order of level,
and within it in order of their paths.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One drafted token.

    Attributes:
        token: the token.
        parent: the node that it follows; -1 for the last decided token, the root.
        depth: tokens between it and the root, itself counted.
        rank: which child of its parent it is.
        score: log of the drafter's probability of the path down to it.
    """

    token: int
    parent: int
    depth: int
    rank: int
    score: float


@dataclass(slots=True)
class DraftTree:
    """The tokens drafted behind the root, parents before children.

    Attributes:
        nodes: the tokens.
        rows: where the distribution of what follows a node lies, by node, -1 for the root; absent where none was asked.
    """

    nodes: list[Node] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)

    def token(self, node: int) -> int:
        """A node's token."""
        return self.nodes[node].token

    def children(self, parent: int) -> list[int]:
        """The nodes behind `parent`, first drafted first."""
        return [index for index, node in enumerate(self.nodes) if node.parent == parent]

    def visible(self, shown: Sequence[int], columns: Sequence[int]) -> NDArray[np.bool_]:
        """Which of the nodes `columns` each of the nodes `shown` may attend to: itself and those it follows."""
        place = {node: column for column, node in enumerate(columns)}
        mask = np.zeros((len(shown), len(columns)), np.bool_)
        for row, node in enumerate(shown):
            while node >= 0:
                mask[row, place[node]] = True
                node = self.nodes[node].parent
        return mask

    def branches(self) -> NDArray[np.bool_]:
        """Which of all nodes each node may attend to; [nodes, nodes]."""
        every = range(len(self.nodes))
        return self.visible(every, every)

    def best(self, count: int) -> DraftTree:
        """The `count` nodes of the highest scores, which hold the parents of each (EAGLE-2, arXiv 2406.16858)."""
        order = sorted(range(len(self.nodes)), key=lambda index: (-self.nodes[index].score, index))
        kept = sorted(order[:count])
        place = {-1: -1} | {old: new for new, old in enumerate(kept)}
        nodes = [
            Node(node.token, place[node.parent], node.depth, node.rank, node.score)
            for node in (self.nodes[index] for index in kept)
        ]
        return DraftTree(nodes, {place[node]: row for node, row in self.rows.items() if node in place})


def static_nodes(depth: int) -> int:
    """Nodes of the static tree as far as `depth`."""
    return sum(map(sum, STATIC_CHILDREN[:depth]))
