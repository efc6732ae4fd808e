"""Speculative decoding of a tree: the target's EAGLE head drafts several tokens behind each, one pass verifies them.

A node sees what is decided and the nodes that it follows, which an explicit mask says. Slots of nodes hold nothing
afterwards: what was decided is fed anew with the next tree, at the places that raster order has for it, so that no key
is ever copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from mulo_engines.buckets import query_bucket
from numpy.typing import NDArray

from mulo_runtime.acceptance.choose import chain_rule
from mulo_runtime.decoders.head import Head
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.sequential import Frontier
from mulo_runtime.decoders.tree_drafting import TreeDrafting
from mulo_runtime.draft_tree import STATIC_CHILDREN, DraftTree
from mulo_runtime.events import Event
from mulo_runtime.lane import Lane
from mulo_runtime.model import Branching
from mulo_runtime.settings import Chain

__all__ = ["decode_tree"]


def decode_tree(lane: Lane, job: Job, outcome: Outcome, settings: Chain) -> Iterator[Event]:
    """Draft a tree behind what is decided, verify it, go on behind the branch that was accepted."""
    width = settings.tree_width if settings.tree == "dynamic" else max(map(max, STATIC_CHILDREN))
    frontier = Frontier(lane, job, outcome, chain_rule(settings, lane.nearest), width)
    lane.meter.phase = "verify"
    frontier.begin()
    lane.meter.phase = "draft"
    drafting = TreeDrafting(lane, job, frontier, Head(lane, job, frontier), settings)
    verifying = _Verifying(lane, job, outcome, frontier)
    while frontier.open:
        lane.meter.phase = "draft"
        trees = drafting.draft(outcome.tokens)
        lane.meter.phase = "verify"
        verifying.verify(trees, drafting)
        outcome.rounds += 1
        yield from frontier.finished_rows()


class _Verifying:
    """The target's side of the rounds."""

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, frontier: Frontier) -> None:
        self._lane, self._job, self._outcome, self._frontier = lane, job, outcome, frontier
        self._fed = np.zeros(len(job.seeds), np.int64)

    def verify(self, trees: Sequence[DraftTree], drafting: TreeDrafting) -> None:
        """Feed what was decided since the last pass and the trees, decide, and hand the hidden states to the head."""
        known, total = self._frontier.known, self._frontier.total
        decided = np.where(known < total, known - self._fed, 0)
        first = int(decided[decided > 0].min()) - 1
        tokens, positions, counts = self._queries(trees, decided)
        self._lane.target.rewind_each(self._fed)
        self._job.guard()
        draws = self._lane.target.feed(
            tokens=tokens,
            positions=positions,
            counts=counts.tolist(),
            candidates=None,
            uniforms=np.zeros((len(trees), tokens.shape[1] - first), np.float32),
            first=first,
            branching=Branching(self._roots(trees), [tree.branches() for tree in trees]),
        )
        assert draws.probs is not None
        rows: list[list[int]] = []
        for image, tree in enumerate(trees):
            self._fed[image] = known[image]
            rows.append([])
            if decided[image]:
                root = int(decided[image]) - 1
                path = self._frontier.decide_branch(
                    image, draws.probs[image, root - first :], tree, drafting.drawn(image)
                )
                rows[-1] = [root, *(root + 1 + node for node in path)]
                self._outcome.drafted[image] += len(tree.nodes)
                self._outcome.verified[image] += len(tree.nodes)
        if self._frontier.open:
            halves = len(self._job.embeds["target"]) // len(trees)
            drafting.head.take(self._lane.target.hidden(halves, query_bucket(tokens.shape[1])), rows)

    def _roots(self, trees: Sequence[DraftTree]) -> list[NDArray[np.int64]]:
        """The last decided position of each image, for every node."""
        return [np.full(len(tree.nodes), known - 1) for tree, known in zip(trees, self._frontier.known, strict=True)]

    def _queries(
        self, trees: Sequence[DraftTree], decided: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Tokens and positions to feed, [N, T], decided ones before drafted ones, and how many there are; [N]."""
        counts = decided + np.array([len(tree.nodes) for tree in trees])
        tokens, positions = np.zeros((2, len(trees), int(counts.max())), np.int64)
        for image, (tree, count) in enumerate(zip(trees, decided.tolist(), strict=True)):
            known = int(self._frontier.known[image])
            tokens[image, :count] = self._outcome.tokens[image, known - count : known]
            positions[image, :count] = np.arange(known - count, known)
            tokens[image, count : counts[image]] = [node.token for node in tree.nodes]
            positions[image, count : counts[image]] = [known - 1 + node.depth for node in tree.nodes]
        return tokens, positions, counts
