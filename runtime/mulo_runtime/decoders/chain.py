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
from mulo_runtime.decoders.head import Head
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.sequential import Frontier, spread_uniforms
from mulo_runtime.events import Event
from mulo_runtime.lane import Lane
from mulo_runtime.noise import Purpose
from mulo_runtime.settings import Chain

__all__ = ["decode_chain"]


def decode_chain(lane: Lane, job: Job, outcome: Outcome, settings: Chain) -> Iterator[Event]:
    """Draft `length` tokens, verify them, go on behind what is decided."""
    frontier = Frontier(lane, job, outcome, chain_rule(settings, lane.nearest))
    lane.meter.phase = "verify"
    frontier.begin()
    lane.meter.phase = "draft"
    head = Head(lane, job, frontier)
    chains = _Chains(lane, job, frontier, settings.length)
    while frontier.open:
        lane.meter.phase = "draft"
        chains.draft(head, outcome)
        lane.meter.phase = "verify"
        hidden, decided = _verify(lane, job, outcome, frontier, chains)
        outcome.rounds += 1
        if frontier.open:
            head.take(hidden, [range(count) for count in decided])
        yield from frontier.finished_rows()


class _Chains:
    """The drafted tokens behind the frontier.

    Attributes:
        tokens: [N, L].
        distributions: what they were drawn from; [N, L, V].
        counts: how many there are; [N].
    """

    def __init__(self, lane: Lane, job: Job, frontier: Frontier, length: int) -> None:
        self._frontier, self._images = frontier, np.arange(len(job.seeds))
        length = min(length, frontier.total)
        # Beyond an image's end there is nothing to draw, and any number does.
        self._uniforms = np.pad(spread_uniforms(job, Purpose.DRAFT, frontier.total), ((0, 0), (0, length)))
        self.tokens = np.zeros((len(job.seeds), length), np.int64)
        self.distributions = np.zeros((len(job.seeds), length, lane.vocabulary), np.float32)
        self.counts = np.zeros(len(job.seeds), np.int64)

    def draft(self, head: Head, outcome: Outcome) -> None:
        """Draft the first token from what is decided, then each from the last."""
        known = self._frontier.known
        self.counts = np.minimum(self.tokens.shape[1], self._frontier.total - known)
        draws, rows, hidden = head.read(outcome.tokens, self._uniforms[self._images, known])
        self._keep(0, draws.tokens, draws.probs, rows)
        for depth in range(1, int(self.counts.max())):
            head.before(1)[:, :, 0] = hidden
            last, going = self.tokens[:, depth - 1 : depth], (self.counts > depth).astype(np.int64)
            numbers = self._uniforms[self._images, known + depth]
            draws = head.feed(last, (known + depth - 1)[:, None], going, numbers)
            self._keep(depth, draws.tokens, draws.probs, np.zeros_like(known))
            hidden = head.foretold(1)[:, :, 0]

    def _keep(
        self,
        depth: int,
        tokens: NDArray[np.int64],
        probs: NDArray[np.float32] | None,
        rows: NDArray[np.int64],
    ) -> None:
        assert probs is not None
        self.tokens[:, depth] = tokens[self._images, rows]
        for image, row in enumerate(rows):
            self.distributions[image, depth] = probs[image, row]


def _verify(
    lane: Lane, job: Job, outcome: Outcome, frontier: Frontier, chains: _Chains
) -> tuple[NDArray[np.generic], list[int]]:
    """Feed the last decided token and the drafted ones, and decide.

    Returns:
        the hidden states of the pass; [halves, N, T, D].
        how many tokens were decided of each image; they follow the first queries of the pass.
    """
    # The last token of an image is followed by none, and is not fed.
    open_ends = np.minimum(chains.counts + 1, frontier.total - frontier.known)
    counts = np.where(chains.counts > 0, open_ends, 0)
    places = frontier.known[:, None] + np.arange(counts.max())
    before = np.maximum(frontier.known - 1, 0)
    lane.target.rewind_each(before)
    fed = np.concatenate([np.take_along_axis(outcome.tokens, before[:, None], 1), chains.tokens], axis=1)
    job.guard()
    draws = lane.target.feed(
        tokens=fed[:, : counts.max()],
        positions=places - 1,
        counts=counts.tolist(),
        candidates=None,
        uniforms=np.take_along_axis(job.target_uniforms, np.minimum(places, frontier.total - 1), 1),
    )
    assert draws.probs is not None
    start = frontier.known.copy()
    outcome.drafted += chains.counts
    outcome.verified += chains.counts
    for image, count in enumerate(chains.counts.tolist()):
        chain = chains.tokens[image, :count].tolist()
        accepted = frontier.decide(image, draws.probs[image], chains.distributions[image], chain)
        if accepted == count < counts[image]:
            frontier.add(image, int(draws.tokens[image, count]))
    halves = len(job.embeds["target"]) // len(start)
    return lane.target.hidden(halves, query_bucket(int(counts.max()))), (frontier.known - start).tolist()
