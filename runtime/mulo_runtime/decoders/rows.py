"""Several rows of an image decoded at once: what is decided of each, what a pass feeds, and what it tells of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.decoders.job import Accept, Job, Outcome
from mulo_runtime.events import RowsDone
from mulo_runtime.lane import Lane
from mulo_runtime.model import Branching

__all__ = ["Queries", "Rows", "decode_rows"]

Ids = NDArray[np.int64]


def decode_rows(lane: Lane, job: Job, outcome: Outcome, images: Sequence[Rows]) -> Iterator[RowsDone]:
    """Draw token 0 from the condition, then run passes until every image is whole."""
    lane.meter.phase = "decode tokens"
    job.guard()
    first = lane.target.begin(job.embeds["target"], job.visible, None, job.target_uniforms[:, :1])
    for rows, token in zip(images, first.tokens[:, 0], strict=True):
        rows.decide(0, int(token))
    told = 0
    while any(rows.finished < rows.rows for rows in images):
        job.guard()
        _run_pass(lane, images)
        outcome.rounds += 1
        finished = min(rows.finished for rows in images)
        if finished > told:
            told = finished
            yield RowsDone(told, lane.as_grid(outcome.tokens), outcome.accepted_share)


class Queries(NamedTuple):
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


class Rows(ABC):
    """The rows of one image.

    Args:
        lane: whose target decodes.
        outcome: where decided tokens and counts go.
        image: which image of the lane.
        window: tokens that a row holds when the next one opens.

    Attributes:
        rows, cols: of the grid.
        tokens: the image; [rows * cols].
        decided: how many tokens of each row are decided, from the left; [rows].
        finished: rows that are whole, from the top.
    """

    def __init__(self, lane: Lane, outcome: Outcome, image: int, window: int) -> None:
        self.rows, self.cols = lane.grid
        self.tokens = outcome.tokens[image]
        self.decided, self._fed = np.zeros((2, self.rows), np.int64)
        self.finished = 0
        self.outcome, self.image = outcome, image
        self._window = min(window, self.cols)

    @abstractmethod
    def queries(self) -> Queries:
        """What the next pass feeds."""

    @abstractmethod
    def read(self, row: int, probs: NDArray[np.float32]) -> None:
        """Decide on a row by the distributions that its queries tell; [queries, V]."""

    def decide(self, row: int, token: int, how: int = Accept.UNVERIFIED) -> None:
        """Add a token to a row."""
        position = self.next_of(row)
        self.tokens[position] = token
        self.outcome.accept_map[self.image, position] = how
        self.decided[row] += 1
        while self.finished < self.rows and self.decided[self.finished] == self.cols:
            self.finished += 1

    def next_of(self, row: int) -> int:
        """The position of a row's first token that is not decided."""
        return row * self.cols + int(self.decided[row])

    def latest(self, row: int) -> int:
        """The last decided token of a row."""
        return int(self.tokens[self.next_of(row) - 1])

    def open_rows(self) -> list[int]:
        """Rows that are not whole, and whose row above holds as many tokens as it must."""
        above = np.concatenate([[self.cols], self.decided[:-1]])
        return np.flatnonzero((above >= self._window) & (self.decided < self.cols)).tolist()

    def unfed(self) -> tuple[list[int], list[int]]:
        """Tokens that are decided and were not fed, and their positions; the image's last is never fed."""
        positions = [
            row * self.cols + column
            for row in range(self.rows)
            for column in range(int(self._fed[row]), int(self.decided[row]))
        ]
        self._fed[:] = self.decided
        positions = [position for position in positions if position < self.rows * self.cols - 1]
        return self.tokens[positions].tolist(), positions


def _run_pass(lane: Lane, images: Sequence[Rows]) -> None:
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
            rows.read(row, probs[chain])
