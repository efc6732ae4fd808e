"""Jacobi decoding of several rows at once: ZipAR's rows, each with drafted tokens of its own (PJD, arXiv 2606.05703).

The paper has no public code; this is our reading of its description. A row opens once the row above holds `window`
tokens. Every open row has a window of drafted tokens, which are verified left to right against the distributions that
they were drawn from, as SJD does. A drafted token sees what is decided and the drafted tokens before it in its row;
those of other rows are hidden. A row that opens before the row above is whole starts from that row's latest token in
place of its last, as ZipAR does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import verify_chain
from mulo_runtime.acceptance.distributions import draw
from mulo_runtime.acceptance.exact import Exact
from mulo_runtime.decoders.job import Accept, Job, Outcome
from mulo_runtime.decoders.sequential import spread_uniforms
from mulo_runtime.events import Event, RowsDone
from mulo_runtime.lane import Lane
from mulo_runtime.model import Branching
from mulo_runtime.noise import Purpose
from mulo_runtime.settings import PJD

__all__ = ["decode_row_jacobi"]

Ids = NDArray[np.int64]


def decode_row_jacobi(lane: Lane, job: Job, outcome: Outcome, settings: PJD) -> Iterator[Event]:
    """Verify the drafted tokens of every open row of every image in a pass."""
    lane.meter.phase = "decode tokens"
    job.guard()
    first = lane.target.begin(job.embeds["target"], job.visible, None, job.target_uniforms[:, :1])
    images = [_Rows(lane, job, outcome, settings, image) for image in range(len(job.seeds))]
    for rows, token in zip(images, first.tokens[:, 0], strict=True):
        rows.decide(0, int(token), Accept.UNVERIFIED)
    told = 0
    while not all(rows.done for rows in images):
        job.guard()
        _run_pass(lane, images)
        outcome.rounds += 1
        finished = min(rows.finished for rows in images)
        if finished > told:
            told = finished
            yield RowsDone(told, lane.as_grid(outcome.tokens), outcome.accepted_share)


class _Queries(NamedTuple):
    """What one image feeds in a pass: decided tokens and, behind them, drafted ones.

    Attributes:
        tokens, positions: of every query; [T].
        roots: the position up to which each drafted query sees what is decided; [drafted].
        visible: which drafted queries each of them sees; [drafted, drafted].
        chains: per open row, its row and the query that tells the distribution of each of its drafted tokens.
    """

    tokens: list[int]
    positions: list[int]
    roots: Ids
    visible: NDArray[np.bool_]
    chains: list[tuple[int, list[int]]]


def _run_pass(lane: Lane, images: list[_Rows]) -> None:
    queries = [rows.queries() for rows in images]
    counts = [len(one.tokens) for one in queries]
    tokens, positions = np.zeros((2, len(images), max(counts)), np.int64)
    for image, one in enumerate(queries):
        tokens[image, : counts[image]] = one.tokens
        positions[image, : counts[image]] = one.positions
    draws = lane.target.feed(
        tokens=tokens,
        positions=positions,
        counts=counts,
        candidates=None,
        uniforms=np.zeros(tokens.shape, np.float32),
        branching=Branching([one.roots for one in queries], [one.visible for one in queries]),
    )
    lane.target.forget([len(one.roots) for one in queries])
    assert draws.probs is not None
    for rows, one, probs in zip(images, queries, draws.probs, strict=True):
        for row, chain in one.chains:
            rows.verify(row, probs, chain)


class _Rows:
    """The rows of one image: what is decided, what is drafted, and what the target has seen.

    Attributes:
        finished: rows that are whole, from the top.
    """

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, settings: PJD, image: int) -> None:
        self._rows, self._cols = lane.grid
        self._outcome, self._image, self._settings = outcome, image, settings
        self._tokens, self._vocabulary = outcome.tokens[image], lane.vocabulary
        self._open_at = min(settings.window, self._cols)
        self._width = min(settings.jacobi_window, self._cols)
        self._decided, self._fed = np.zeros((2, self._rows), np.int64)
        self._drafts: list[list[int]] = [[] for _ in range(self._rows)]
        self._draft = np.zeros((self._rows, self._width, lane.vocabulary), np.float32)
        self._scratch = np.zeros(lane.vocabulary, np.float32)
        self._uniforms = job.target_uniforms[image]
        self._draws, self._trials = (
            spread_uniforms(job, purpose, self._rows * self._cols)[image] for purpose in (Purpose.DRAFT, Purpose.TRIAL)
        )
        self.finished = 0

    @property
    def done(self) -> bool:
        """Whether the image is whole."""
        return self.finished == self._rows

    def decide(self, row: int, token: int, how: int) -> None:
        """Add a token to a row."""
        position = row * self._cols + int(self._decided[row])
        self._tokens[position] = token
        self._outcome.accept_map[self._image, position] = how
        self._decided[row] += 1
        while self.finished < self._rows and self._decided[self.finished] == self._cols:
            self.finished += 1

    def queries(self) -> _Queries:
        """Everything decided that was not fed, then a start and the drafted tokens of every open row."""
        tokens, positions = self._unfed()
        decided = len(tokens)
        place = {position: query for query, position in enumerate(positions)}
        roots: list[int] = []
        owner: list[int] = []
        chains: list[tuple[int, list[int]]] = []
        for row in self._open_rows():
            first = row * self._cols + int(self._decided[row])
            self._fill(row)
            if first - 1 not in place:
                tokens.append(self._latest(row - 1))
                positions.append(first - 1)
                roots.append(first - 1)
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
        own = rows[:, None] == rows
        assert len(roots) == len(tokens) - decided
        return _Queries(tokens, positions, np.array(roots, np.int64), np.tril(own), chains)

    def verify(self, row: int, probs: NDArray[np.float32], chain: list[int]) -> None:
        """Decide on a row's drafted tokens, and draw those behind the first rejection anew."""
        start = row * self._cols + int(self._decided[row])
        drafts = self._drafts[row]
        place = slice(start, start + len(drafts))
        target = probs[chain]
        verdict = verify_chain(
            Exact(), target, self._draft[row], drafts, self._trials[place], self._uniforms[place], self._scratch
        )
        for token in drafts[: verdict.accepted]:
            self.decide(row, token, Accept.ACCEPTED)
        self._outcome.accepted[self._image] += verdict.accepted
        self._outcome.drafted[self._image] += len(drafts)
        self._outcome.verified[self._image] += len(drafts)
        gone = verdict.accepted
        if verdict.replacement is not None:
            self.decide(row, verdict.replacement, Accept.REJECTED)
            self._outcome.resampled[self._image] += 1
            gone += 1
        self._drafts[row] = [
            _drawn(behind, self._draws[start + gone + offset], self._scratch)
            for offset, behind in enumerate(target[gone:])
        ]
        self._draft[row, : len(target) - gone] = target[gone:]

    def _unfed(self) -> tuple[list[int], list[int]]:
        """Tokens that are decided and were not fed, and their positions; the image's last is never fed."""
        positions = [
            row * self._cols + column
            for row in range(self._rows)
            for column in range(int(self._fed[row]), int(self._decided[row]))
        ]
        self._fed[:] = self._decided
        positions = [position for position in positions if position < self._rows * self._cols - 1]
        return self._tokens[positions].tolist(), positions

    def _open_rows(self) -> list[int]:
        above = np.concatenate([[self._cols], self._decided[:-1]])
        return np.flatnonzero((above >= self._open_at) & (self._decided < self._cols)).tolist()

    def _latest(self, row: int) -> int:
        """The last decided token of a row."""
        return int(self._tokens[row * self._cols + int(self._decided[row]) - 1])

    def _fill(self, row: int) -> None:
        """Draft tokens that no pass has seen: random ones, as SJD does."""
        drafts, decided = self._drafts[row], int(self._decided[row])
        while len(drafts) < min(self._width, self._cols - decided):
            self._draft[row, len(drafts)] = 1 / self._vocabulary
            position = row * self._cols + decided + len(drafts)
            drafts.append(int(self._draws[position] * self._vocabulary))


def _drawn(distribution: NDArray[np.float32], uniform: float, scratch: NDArray[np.float32]) -> int:
    np.copyto(scratch, distribution)
    return draw(scratch, float(uniform))
