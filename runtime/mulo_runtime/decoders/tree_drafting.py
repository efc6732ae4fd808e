"""The head's side of a tree: level by level, each node read with the hidden state foretold at the one it follows."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.distributions import draw
from mulo_runtime.decoders.head import Head
from mulo_runtime.decoders.job import Job
from mulo_runtime.decoders.sequential import Frontier, spread_uniforms
from mulo_runtime.draft_tree import STATIC_CHILDREN, DraftTree, Node
from mulo_runtime.lane import Lane
from mulo_runtime.model import Branching
from mulo_runtime.noise import Purpose
from mulo_runtime.settings import Chain

__all__ = ["TreeDrafting"]


class TreeDrafting:
    """Drafts trees behind the frontier.

    A static tree (EAGLE-1) draws children without replacement and gives each place its number of them. A dynamic tree
    (EAGLE-2) chooses the likeliest children of the most probable nodes of each level, and of all the best in the end.

    Attributes:
        head: reads and foretells.
    """

    def __init__(self, lane: Lane, job: Job, frontier: Frontier, head: Head, settings: Chain) -> None:
        self.head = head
        self._job, self._frontier, self._settings = job, frontier, settings
        images, rows = len(job.seeds), 1 + settings.most_read
        self._width = settings.tree_width if settings.tree == "dynamic" else max(map(max, STATIC_CHILDREN))
        numbers = spread_uniforms(job, Purpose.DRAFT, frontier.total * self._width)
        self._uniforms = numbers.reshape(images, frontier.total, self._width)
        self._distributions = np.zeros((images, rows, lane.vocabulary), np.float32)
        self._hidden = np.zeros((head.halves, images, rows, head.width), head.dtype)
        self._scratch = np.zeros((2, lane.vocabulary), np.float32)
        self._unused = np.zeros(images, np.float32)

    def drawn(self, image: int) -> NDArray[np.float32] | None:
        """What an image's nodes were drawn from, by their tree's `rows`; None where they were chosen."""
        return self._distributions[image] if self._settings.tree == "static" else None

    def draft(self, decided: NDArray[np.int64]) -> list[DraftTree]:
        """Draft a tree for every image; it is empty where nothing is left to draft."""
        known, settings = self._frontier.known, self._settings
        trees = [DraftTree(rows={-1: 0}) for _ in known]
        draws, rows, hidden = self.head.read(decided, self._unused)
        assert draws.probs is not None
        self._hidden[:, :, 0] = hidden
        for image, row in enumerate(rows):
            self._distributions[image, 0] = draws.probs[image, row]
        level = [[-1] for _ in trees]
        for depth in range(1, settings.length + 1):
            for image, tree in enumerate(trees):
                level[image] = self._grow(image, tree, level[image], depth)
            if depth < settings.length and any(level):
                self._read(trees, level, depth)
        if settings.tree == "dynamic":
            return [tree.best(settings.tree_nodes) for tree in trees]
        return trees

    def _grow(self, image: int, tree: DraftTree, parents: list[int], depth: int) -> list[int]:
        """Add children of `parents`; returns those that get children themselves."""
        position = int(self._frontier.known[image]) + depth - 1
        if position >= self._frontier.total:
            return []
        start = len(tree.nodes)
        for place, parent in enumerate(parents):
            distribution = self._distributions[image, tree.rows[parent]]
            if self._settings.tree == "dynamic":
                tokens = self._likeliest(distribution, self._width)
            else:
                tokens = self._without_replacement(
                    distribution, self._uniforms[image, position], _children(depth, place)
                )
            above = tree.nodes[parent].score if parent >= 0 else 0.0
            for rank, token in enumerate(tokens):
                tree.nodes.append(Node(token, parent, depth, rank, above + log(float(distribution[token]))))
        grown = range(start, len(tree.nodes))
        if self._settings.tree == "dynamic":
            return sorted(sorted(grown, key=lambda node: -tree.nodes[node].score)[: self._width])
        return list(grown)[: _parents(depth + 1)]

    def _read(self, trees: list[DraftTree], level: list[list[int]], depth: int) -> None:
        """Have the head read a level's nodes, and keep what it makes of them."""
        known = self._frontier.known
        counts = np.array([len(nodes) for nodes in level])
        tokens = np.zeros((len(trees), int(counts.max())), np.int64)
        before = self.head.before(tokens.shape[1])
        visible = []
        for image, (tree, nodes) in enumerate(zip(trees, level, strict=True)):
            tokens[image, : len(nodes)] = [tree.nodes[node].token for node in nodes]
            above = [tree.rows[tree.nodes[node].parent] for node in nodes]
            before[:, image, : len(nodes)] = self._hidden[:, image, above]
            first = len(tree.rows)
            tree.rows |= {node: first + place for place, node in enumerate(nodes)}
            visible.append(tree.visible(nodes, list(tree.rows)[1:]))
        roots = [np.full(len(nodes), place - 1) for nodes, place in zip(level, known, strict=True)]
        positions = np.broadcast_to((known + depth - 1)[:, None], tokens.shape)
        draws = self.head.feed(tokens, positions, counts, self._unused, branching=Branching(roots, visible))
        assert draws.probs is not None
        foretold = self.head.foretold(tokens.shape[1])
        for image, (tree, nodes) in enumerate(zip(trees, level, strict=True)):
            kept = slice(len(tree.rows) - len(nodes), len(tree.rows))
            self._distributions[image, kept] = draws.probs[image, : len(nodes)]
            self._hidden[:, image, kept] = foretold[:, image, : len(nodes)]

    def _without_replacement(
        self, distribution: NDArray[np.float32], uniforms: NDArray[np.float32], count: int
    ) -> list[int]:
        """Up to `count` different tokens, each drawn from what the ones before leave."""
        left, cumulative = self._scratch
        np.copyto(left, distribution)
        tokens: list[int] = []
        while len(tokens) < count and left.any():
            np.copyto(cumulative, left)
            tokens.append(draw(cumulative, float(uniforms[len(tokens)])))
            left[tokens[-1]] = 0
        return tokens

    def _likeliest(self, distribution: NDArray[np.float32], count: int) -> list[int]:
        """The `count` most probable tokens that have a probability at all, the likeliest first."""
        ranked, _ = self._scratch
        np.copyto(ranked, distribution)
        place = max(len(ranked) - count, 0)
        ranked.partition(place)
        least = float(ranked[place])
        found = np.flatnonzero((distribution >= least) & (distribution > 0))
        order = np.argsort(-distribution[found], kind="stable")[:count]
        return [int(token) for token in found[order]]


def _children(depth: int, place: int) -> int:
    """How many children at `depth` the static tree gives to the node at `place` of the level above."""
    counts = STATIC_CHILDREN[depth - 1]
    return counts[place] if place < len(counts) else 0


def _parents(depth: int) -> int:
    """How many nodes of the level above have children at `depth`."""
    return len(STATIC_CHILDREN[depth - 1]) if depth <= len(STATIC_CHILDREN) else 0
