"""Jacobi decoding of several rows at once: ZipAR's rows, each with drafted tokens of its own (PJD, arXiv 2606.05703).

The paper has no public code; this is our reading of its description. A row opens once the row above holds `window`
tokens. Every open row has a window of drafted tokens, which are verified left to right against the distributions that
they were drawn from, as SJD does. A drafted token sees what is decided and the drafted tokens before it in its row;
those of other rows are hidden. A row that opens before the row above is whole starts from that row's latest token in
place of its last, as ZipAR does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import verify_chain
from mulo_runtime.acceptance.distributions import draw
from mulo_runtime.acceptance.exact import Exact
from mulo_runtime.decoders.job import Accept, Job, Outcome
from mulo_runtime.decoders.rows import Queries, Rows, decode_rows
from mulo_runtime.decoders.sequential import spread_uniforms
from mulo_runtime.events import Event
from mulo_runtime.lane import Lane
from mulo_runtime.noise import Purpose
from mulo_runtime.settings import PJD

__all__ = ["decode_row_jacobi"]


def decode_row_jacobi(lane: Lane, job: Job, outcome: Outcome, settings: PJD) -> Iterator[Event]:
    """Verify the drafted tokens of every open row of every image in a pass."""
    return decode_rows(lane, job, outcome, [_Drafted(lane, job, outcome, settings, i) for i in range(len(job.seeds))])


class _Drafted(Rows):
    """The rows of one image, each with its drafted tokens."""

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, settings: PJD, image: int) -> None:
        super().__init__(lane, outcome, image, settings.window)
        self._vocabulary, self._width = lane.vocabulary, min(settings.jacobi_window, self.cols)
        self._drafts: list[list[int]] = [[] for _ in range(self.rows)]
        self._draft = np.zeros((self.rows, self._width, lane.vocabulary), np.float32)
        self._scratch = np.zeros(lane.vocabulary, np.float32)
        self._uniforms = job.target_uniforms[image]
        self._draws, self._trials = (
            spread_uniforms(job, purpose, self.rows * self.cols)[image] for purpose in (Purpose.DRAFT, Purpose.TRIAL)
        )

    def queries(self) -> Queries:
        """See `Rows.queries`: behind what is decided, a start and the drafted tokens of every open row."""
        tokens, positions = self.unfed()
        place = {position: query for query, position in enumerate(positions)}
        roots: list[int] = []
        owner: list[int] = []
        chains: list[tuple[int, list[int]]] = []
        for row in self.open_rows():
            first = self.next_of(row)
            self._fill(row)
            if first - 1 not in place:
                tokens.append(self.latest(row - 1))
                positions.append(first - 1)
                roots.append(first - 1)
                # Nobody else sees it: it stands in for a token that is still to be drawn.
                owner.append(-1 - row)
            chain = [place.get(first - 1, len(tokens) - 1)]
            for offset, token in enumerate(self._drafts[row][:-1]):
                chain.append(len(tokens))
                tokens.append(token)
                positions.append(first + offset)
                roots.append(first - 1)
                owner.append(row)
            chains.append((row, chain))
        rows = np.array(owner, np.int64)
        visible = np.tril(rows[:, None] == rows)
        return Queries(tokens, positions, np.array(roots, np.int64), visible, chains)

    def read(self, row: int, probs: NDArray[np.float32]) -> None:
        """See `Rows.read`: verify a row's drafted tokens, and draw those behind the first rejection anew."""
        start, drafts = self.next_of(row), self._drafts[row]
        place = slice(start, start + len(drafts))
        verdict = verify_chain(
            Exact(), probs, self._draft[row], drafts, self._trials[place], self._uniforms[place], self._scratch
        )
        for token in drafts[: verdict.accepted]:
            self.decide(row, token, Accept.ACCEPTED)
        if verdict.replacement is not None:
            self.decide(row, verdict.replacement, Accept.REJECTED)
        self._book(len(drafts), verdict.accepted)
        gone = self.next_of(row) - start
        self._drafts[row] = [self._drawn(behind, start + gone + more) for more, behind in enumerate(probs[gone:])]
        self._draft[row, : len(probs) - gone] = probs[gone:]

    def _book(self, drafted: int, accepted: int) -> None:
        self.outcome.drafted[self.image] += drafted
        self.outcome.verified[self.image] += drafted
        self.outcome.accepted[self.image] += accepted
        self.outcome.resampled[self.image] += accepted < drafted

    def _fill(self, row: int) -> None:
        """Draft tokens that no pass has seen: random ones, as SJD does."""
        drafts, left = self._drafts[row], self.cols - int(self.decided[row])
        while len(drafts) < min(self._width, left):
            self._draft[row, len(drafts)] = 1 / self._vocabulary
            drafts.append(int(self._draws[self.next_of(row) + len(drafts)] * self._vocabulary))

    def _drawn(self, distribution: NDArray[np.float32], position: int) -> int:
        np.copyto(self._scratch, distribution)
        return draw(self._scratch, float(self._draws[position]))
