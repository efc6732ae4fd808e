"""The target's EAGLE head as chain and tree methods use it: what is decided is read anew before each draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from mulo_engines.buckets import query_bucket
from numpy.typing import NDArray

from mulo_runtime.decoders.job import Job
from mulo_runtime.decoders.sequential import Frontier
from mulo_runtime.lane import Lane
from mulo_runtime.model import Branching
from mulo_runtime.sampler import Draws

__all__ = ["Head", "Reading"]

Ids = NDArray[np.int64]


class Reading(NamedTuple):
    """What the head makes of the tokens that were decided last.

    Attributes:
        draws: what follows the queries of the pass.
        rows: which row of the draws is that of each image; [N].
        hidden: the hidden state that the head foretells at each image's last token; [halves, N, D].
    """

    draws: Draws
    rows: Ids
    hidden: NDArray[np.generic]


class Head:
    """Reads each decided token with the target's hidden state before it, then drafted ones with its own.

    Args:
        lane: whose target's and head's logs the images are in; the condition is in the target's and goes into the
            head's.
        job: the images.
        frontier: how far they are decided.

    Attributes:
        halves: 2 with guidance, else 1.
        width: D, of a hidden state.
        dtype: its type.
    """

    def __init__(self, lane: Lane, job: Job, frontier: Frontier) -> None:
        assert lane.eagle is not None
        self._model, self._job, self._frontier = lane.eagle, job, frontier
        self.halves = len(job.embeds["target"]) // len(job.seeds)
        self._read = np.zeros(len(job.seeds), np.int64)
        prefix = job.visible.shape[1]
        # The first position that is visible has no hidden state before it, and published heads leave it out, too.
        visible = job.visible & (np.cumsum(job.visible, axis=1) > 1)
        hidden, before = lane.target.hidden(self.halves, prefix), self._model.previous_hidden(self.halves, prefix)
        before[:, :, 0] = 0
        before[:, :, 1:] = hidden[:, :, :-1]
        job.guard()
        self._model.begin(job.embeds["target"], visible, None, job.target_uniforms[:, :1])
        self._model.previous_hidden(self.halves, 1)[:, :, 0] = hidden[:, :, -1]
        self.width, self.dtype = hidden.shape[-1], hidden.dtype

    def take(self, hidden: NDArray[np.generic], rows: Sequence[Sequence[int]]) -> None:
        """Take over the hidden states before the tokens that were decided last, from a pass of the target.

        Args:
            hidden: those of the pass; [halves, N, T, D].
            rows: the queries of the pass that these tokens follow, of each image.
        """
        fresh = self._fresh()
        before = self.before(int(fresh.max()))
        for image, count in enumerate(fresh):
            before[:, image, :count] = hidden[:, image, rows[image][:count]]

    def read(self, decided: Ids, uniforms: NDArray[np.float32]) -> Reading:
        """Read what was decided since the last time, and draw what follows.

        Args:
            decided: the images' tokens; [N, rows * cols].
            uniforms: the numbers that draw; [N].
        """
        known, total, fresh = self._frontier.known, self._frontier.total, self._fresh()
        first = int(fresh[fresh > 0].min()) - 1
        positions = self._read[:, None] + np.arange(fresh.max())
        self._model.rewind_each(self._read)
        self._read = known.copy()
        tokens = np.take_along_axis(decided, np.minimum(positions, total - 1), 1)
        draws = self.feed(tokens, positions, fresh, uniforms, first)
        last = np.maximum(fresh - 1, 0)
        hidden = self.foretold(int(fresh.max()))[:, np.arange(len(last)), last]
        return Reading(draws, np.maximum(last - first, 0), hidden)

    def feed(
        self,
        tokens: Ids,
        positions: Ids,
        counts: Ids,
        uniforms: NDArray[np.float32],
        first: int = 0,
        branching: Branching | None = None,
    ) -> Draws:
        """Read tokens whose previous hidden states are in place, and draw what follows each from query `first` on."""
        self._job.guard()
        return self._model.feed(
            tokens=tokens,
            positions=positions,
            counts=counts.tolist(),
            candidates=None,
            uniforms=uniforms[:, None].repeat(max(tokens.shape[1] - first, 1), 1),
            first=first,
            branching=branching,
        )

    def _fresh(self) -> Ids:
        """How many decided tokens of each unfinished image are not read; [N]."""
        known = self._frontier.known
        return np.where(known < self._frontier.total, known - self._read, 0)

    def foretold(self, queries: int) -> NDArray[np.generic]:
        """The hidden states that a pass of so many queries foretold; [halves, N, T, D]."""
        return self._model.hidden(self.halves, query_bucket(queries))

    def before(self, queries: int) -> NDArray[np.generic]:
        """Where the next pass of so many queries reads hidden states; [halves, N, T, D]."""
        return self._model.previous_hidden(self.halves, query_bucket(queries))
