"""Speculative Jacobi decoding: the target drafts for itself, by its own distributions of the pass before.

SJD (arXiv 2410.01699) is exact, because every drafted token is verified against the distribution that it was drawn
from; GSD (arXiv 2508.07747) differs in the rule alone. A token that is drawn again is drawn with the same number, which
keeps it in place while its distribution settles (as in arXiv 2510.24211) and changes no distribution.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.choose import chain_rule
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.sequential import Frontier, spread_uniforms
from mulo_runtime.events import Event
from mulo_runtime.lane import Lane
from mulo_runtime.noise import Purpose
from mulo_runtime.settings import Jacobi

__all__ = ["decode_jacobi"]


def decode_jacobi(lane: Lane, job: Job, outcome: Outcome, settings: Jacobi) -> Iterator[Event]:
    """Verify a window of drafted tokens a pass, and draw those behind the first rejection anew."""
    lane.meter.phase = "decode tokens"
    frontier = Frontier(lane, job, outcome, chain_rule(settings, lane.nearest))
    window = _Window(lane, job, settings)
    frontier.begin()
    while frontier.open:
        job.guard()
        window.fill(outcome.tokens, frontier)
        window.verify(outcome, frontier)
        outcome.rounds += 1
        yield from frontier.finished_rows()


class _Window:
    """The drafted tokens behind the frontier of every image, and the distributions that they were drawn from."""

    def __init__(self, lane: Lane, job: Job, settings: Jacobi) -> None:
        self._lane, self._settings = lane, settings
        self._width = min(settings.jacobi_window, lane.grid[0] * lane.grid[1])
        images, tokens = job.target_uniforms.shape
        # Beyond an image's end there is nothing to draw, and any number does.
        self._uniforms = np.pad(spread_uniforms(job, Purpose.DRAFT, tokens), ((0, 0), (0, self._width)))
        self._tokens = np.zeros((images, self._width), np.int64)
        self._draft = np.zeros((images, self._width, lane.vocabulary), np.float32)
        self._drawn = [0] * images
        self._offsets = np.arange(self._width)

    def fill(self, decided: NDArray[np.int64], frontier: Frontier) -> None:
        """Draft tokens that no pass has seen, as the settings say."""
        for image, drawn in enumerate(self._drawn):
            for place in range(drawn, frontier.ahead(image, self._width)):
                position = int(frontier.known[image]) + place
                if self._settings.start == "random":
                    self._draft[image, place] = 1 / self._lane.vocabulary
                    self._tokens[image, place] = int(self._uniforms[image, position] * self._lane.vocabulary)
                else:
                    left = self._tokens[image, place - 1] if place else decided[image, position - 1]
                    self._draft[image, place] = 0
                    self._draft[image, place, left] = 1
                    self._tokens[image, place] = left

    def verify(self, outcome: Outcome, frontier: Frontier) -> None:
        """Run the target over the window, decide on its tokens, and move it behind the frontier."""
        counts = [frontier.ahead(image, self._width) for image in range(len(self._tokens))]
        places = frontier.known[:, None] + self._offsets[: max(counts)]
        before = np.maximum(frontier.known - 1, 0)
        self._lane.target.rewind_each(before)
        fed = np.concatenate([np.take_along_axis(outcome.tokens, before[:, None], 1), self._tokens], axis=1)
        draws = self._lane.target.feed(
            tokens=fed[:, : max(counts)],
            positions=places - 1,
            counts=counts,
            candidates=None,
            uniforms=np.take_along_axis(self._uniforms, places, 1),
        )
        assert draws.probs is not None
        outcome.drafted += counts
        outcome.verified += counts
        for image, count in enumerate(counts):
            start = int(frontier.known[image])
            tokens = self._tokens[image, :count].tolist()
            if count:
                frontier.decide(image, draws.probs[image], self._draft[image], tokens)
            self._move(image, int(frontier.known[image]) - start, count, draws.tokens[image], draws.probs[image])

    def _move(
        self, image: int, decided: int, count: int, tokens: NDArray[np.int64], probs: NDArray[np.float32]
    ) -> None:
        """Keep what the pass has drawn behind the frontier, at the beginning of the window."""
        left = count - decided
        self._tokens[image, :left] = tokens[decided:count]
        self._draft[image, :left] = probs[decided:count]
        self._drawn[image] = left
