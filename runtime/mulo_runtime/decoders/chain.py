"""Speculative decoding of a chain: the target's EAGLE head drafts token after token, one pass verifies them.

Which tokens are accepted, and what replaces the first that is not, is the rule's (`acceptance/`): exact speculative
sampling, COOL-SD, LANTERN and their relatives differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mulo_engines.buckets import query_bucket
from numpy.typing import NDArray

from mulo_runtime.acceptance.choose import chain_rule
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.sequential import Frontier, spread_uniforms
from mulo_runtime.events import Event
from mulo_runtime.lane import Lane
from mulo_runtime.model import CachedModel
from mulo_runtime.noise import Purpose
from mulo_runtime.settings import Chain

__all__ = ["decode_chain"]

Ids = NDArray[np.int64]


def decode_chain(lane: Lane, job: Job, outcome: Outcome, settings: Chain) -> Iterator[Event]:
    """Draft `length` tokens, verify them, go on behind what is decided."""
    frontier = Frontier(lane, job, outcome, chain_rule(settings, lane.nearest))
    lane.meter.phase = "verify"
    job.guard()
    first = lane.target.begin(job.embeds["target"], job.visible, None, job.target_uniforms[:, :1])
    for image, token in enumerate(first.tokens[:, 0]):
        frontier.add(image, int(token))
    drafter = _Drafter(lane, job, frontier, settings.length)
    while frontier.open:
        lane.meter.phase = "draft"
        drafter.draft(outcome.tokens)
        lane.meter.phase = "verify"
        job.guard()
        hidden = _verify(lane.target, job, outcome, frontier, drafter)
        outcome.rounds += 1
        if frontier.open:
            drafter.read(hidden)
        yield from frontier.finished_rows()


class _Drafter:
    """The head's side of the rounds.

    Attributes:
        tokens: the drafted tokens; [N, L].
        distributions: what they were drawn from; [N, L, V].
        counts: how many there are of each image; [N].
    """

    def __init__(self, lane: Lane, job: Job, frontier: Frontier, length: int) -> None:
        assert lane.eagle is not None
        self._head, self._job, self._frontier = lane.eagle, job, frontier
        images = len(job.seeds)
        self._images, self._length = np.arange(images), min(length, frontier.total)
        # Beyond an image's end there is nothing to draw, and any number does.
        drawn = spread_uniforms(job, Purpose.DRAFT, frontier.total)
        self._uniforms = np.pad(drawn, ((0, 0), (0, self._length)))
        self.tokens = np.zeros((images, self._length), np.int64)
        self.distributions = np.zeros((images, self._length, lane.vocabulary), np.float32)
        self.counts = [0] * images
        self._read = np.zeros(images, np.int64)
        self._halves = len(job.embeds["target"]) // images
        self._begin(lane.target)

    def draft(self, decided: Ids) -> None:
        """Draft behind the frontier: the first token from the decided ones that are new, then each from the last."""
        self.counts = [self._frontier.ahead(image, self._length) for image in range(len(self.tokens))]
        fresh = self._fresh()
        positions = self._read[:, None] + np.arange(fresh.max())
        self._head.rewind_each(self._read)
        within = np.minimum(positions, self._frontier.total - 1)
        self._draw(0, np.take_along_axis(decided, within, 1), positions, fresh)
        self._read = self._frontier.known.copy()
        for depth in range(1, max(self.counts)):
            hidden = self._head.hidden(self._halves, query_bucket(int(fresh.max())))
            self._head.previous_hidden(self._halves, 1)[:, :, 0] = hidden[:, self._images, np.maximum(fresh, 1) - 1]
            fresh = (np.asarray(self.counts) > depth).astype(np.int64)
            self._draw(depth, self.tokens[:, depth - 1 : depth], (self._read + depth - 1)[:, None], fresh)

    def read(self, hidden: NDArray[np.generic]) -> None:
        """Take over the target's hidden states at the queries of its last pass; [halves, N, T, D]."""
        fresh = int(self._fresh().max())
        self._head.previous_hidden(self._halves, query_bucket(fresh))[:, :, :fresh] = hidden[:, :, :fresh]

    def _fresh(self) -> Ids:
        """How many decided tokens of each unfinished image the head has not read; [N]."""
        known = self._frontier.known
        return np.where(known < self._frontier.total, known - self._read, 0)

    def _draw(self, depth: int, tokens: Ids, positions: Ids, counts: Ids) -> None:
        """Feed tokens and draw, from the last of each image, its token at `depth` of the chain."""
        self._job.guard()
        first = max(int(counts[counts > 0].min(initial=counts.max())), 1) - 1
        rows = max(int(counts.max()) - first, 1)
        places = (self._frontier.known + depth)[:, None].repeat(rows, 1)
        draws = self._head.feed(
            tokens=tokens,
            positions=positions,
            counts=counts.tolist(),
            candidates=None,
            uniforms=np.take_along_axis(self._uniforms, places, 1),
            first=first,
        )
        assert draws.probs is not None
        last = np.maximum(counts - 1 - first, 0)
        self.tokens[:, depth] = draws.tokens[self._images, last]
        for image, row in enumerate(last):
            self.distributions[image, depth] = draws.probs[image, row]

    def _begin(self, target: CachedModel) -> None:
        """Feed the condition, each position with the target's hidden state before it; the first has none."""
        job = self._job
        prefix = job.visible.shape[1]
        visible = job.visible & (np.cumsum(job.visible, axis=1) > 1)
        job.guard()
        hidden, before = target.hidden(self._halves, prefix), self._head.previous_hidden(self._halves, prefix)
        before[:, :, 0] = 0
        before[:, :, 1:] = hidden[:, :, :-1]
        self._head.begin(job.embeds["target"], visible, None, self._uniforms[:, :1])
        self._head.previous_hidden(self._halves, 1)[:, :, 0] = hidden[:, :, -1]


def _verify(
    target: CachedModel, job: Job, outcome: Outcome, frontier: Frontier, drafter: _Drafter
) -> NDArray[np.generic]:
    """Feed the last decided token and the drafted ones, and decide; returns the hidden states of the pass."""
    drafted = np.asarray(drafter.counts)
    # The last token of an image is followed by none, and is not fed.
    counts = np.where(drafted > 0, np.minimum(drafted + 1, frontier.total - frontier.known), 0)
    places = frontier.known[:, None] + np.arange(counts.max())
    before = np.maximum(frontier.known - 1, 0)
    target.rewind_each(before)
    fed = np.concatenate([np.take_along_axis(outcome.tokens, before[:, None], 1), drafter.tokens], axis=1)
    draws = target.feed(
        tokens=fed[:, : counts.max()],
        positions=places - 1,
        counts=counts.tolist(),
        candidates=None,
        uniforms=np.take_along_axis(job.target_uniforms, np.minimum(places, frontier.total - 1), 1),
    )
    assert draws.probs is not None
    outcome.drafted += drafted
    outcome.verified += drafted
    for image, count in enumerate(drafter.counts):
        if count:
            chain = drafter.tokens[image, :count].tolist()
            accepted = frontier.decide(image, draws.probs[image], drafter.distributions[image], chain)
            if accepted == count < counts[image]:
                frontier.add(image, int(draws.tokens[image, count]))
    return target.hidden(len(job.embeds["target"]) // len(drafted), query_bucket(int(counts.max())))
