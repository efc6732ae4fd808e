"""ZipAR whose rows open when their first token has settled (ZipAR, arXiv 2412.04062, section 3.3).

The adaptive window is in the paper only; this is our reading of it. Once the row above holds `window` tokens, the first
token of a row is drawn from what is visible then. With every further token of the row above it is verified: accepted
with probability min(1, P'(x) / P(x)), where P is what it was drawn from and P' what is visible now, or drawn anew from
norm([P' - P]+). The row opens when it is accepted, or when the row above is whole.
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
from mulo_runtime.settings import AdaptiveZipAR

__all__ = ["decode_adaptive_zipar"]


def decode_adaptive_zipar(lane: Lane, job: Job, outcome: Outcome, settings: AdaptiveZipAR) -> Iterator[Event]:
    """Draw one token of every open row a pass, and settle the first tokens of the rows below them."""
    return decode_rows(lane, job, outcome, [_Settling(lane, job, outcome, settings, i) for i in range(len(job.seeds))])


class _Settling(Rows):
    """The rows of one image, those that have not opened with a first token on trial."""

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, settings: AdaptiveZipAR, image: int) -> None:
        super().__init__(lane, outcome, image, settings.window)
        self._uniforms = job.target_uniforms[image]
        # A row's first token is drawn and tried at most once for every token of the row above.
        self._draws, self._trials = (
            spread_uniforms(job, purpose, self.rows * self.cols)[image] for purpose in (Purpose.DRAFT, Purpose.TRIAL)
        )
        self._first: list[int | None] = [None] * self.rows
        self._drawn_from = np.zeros((self.rows, 1, lane.vocabulary), np.float32)
        self._scratch = np.zeros(lane.vocabulary, np.float32)

    def queries(self) -> Queries:
        """See `Rows.queries`: behind what is decided, the latest token of the row above where a row is on trial."""
        tokens, positions = self.unfed()
        place = {position: query for query, position in enumerate(positions)}
        decided = len(tokens)
        chains: list[tuple[int, list[int]]] = []
        for row in self.open_rows():
            before = self.next_of(row) - 1
            if before not in place:
                place[before] = len(tokens)
                tokens.append(self.latest(row - 1))
                positions.append(before)
            chains.append((row, [place[before]]))
        roots = np.array(positions[decided:], np.int64)
        return Queries(tokens, positions, roots, np.eye(len(roots), dtype=np.bool_), chains)

    def read(self, row: int, probs: NDArray[np.float32]) -> None:
        """See `Rows.read`: draw a row's next token, or settle its first."""
        if self.decided[row] or (self._whole_above(row) and self._first[row] is None):
            self.decide(row, self._drawn(probs[0], float(self._uniforms[self.next_of(row)])))
        elif self._first[row] is None:
            self._try(row, self._drawn(probs[0], float(self._uniforms[self.next_of(row)])), probs)
        else:
            self._settle(row, probs)

    def _settle(self, row: int, probs: NDArray[np.float32]) -> None:
        """Verify a row's first token against what is visible now."""
        first = self._first[row]
        assert first is not None
        attempt = row * self.cols + int(self.decided[row - 1]) - 1
        trial, number = self._trials[attempt : attempt + 1], self._draws[attempt : attempt + 1]
        verdict = verify_chain(Exact(), probs, self._drawn_from[row], [first], trial, number, self._scratch)
        self.outcome.drafted[self.image] += 1
        self.outcome.verified[self.image] += 1
        if verdict.replacement is None:
            self.outcome.accepted[self.image] += 1
            self.decide(row, first, Accept.ACCEPTED)
            return
        self.outcome.resampled[self.image] += 1
        if self._whole_above(row):
            self.decide(row, verdict.replacement, Accept.REJECTED)
        else:
            self._try(row, verdict.replacement, probs)

    def _try(self, row: int, token: int, probs: NDArray[np.float32]) -> None:
        self._first[row] = token
        self._drawn_from[row] = probs

    def _whole_above(self, row: int) -> bool:
        return row > 0 and bool(self._fed[row - 1] == self.cols)

    def _drawn(self, distribution: NDArray[np.float32], uniform: float) -> int:
        np.copyto(self._scratch, distribution)
        return draw(self._scratch, uniform)
