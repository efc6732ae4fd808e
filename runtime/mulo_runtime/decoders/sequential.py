"""What methods share that decide on one token of the target's grid after another, by distributions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import ChainRule, verify_chain
from mulo_runtime.decoders.job import Accept, Job, Outcome
from mulo_runtime.events import RowsDone
from mulo_runtime.lane import Lane
from mulo_runtime.noise import Purpose, uniforms

__all__ = ["Frontier", "spread_uniforms"]


def spread_uniforms(job: Job, purpose: Purpose, tokens: int) -> NDArray[np.float32]:
    """The numbers of one purpose for every token of the job's images; [N, tokens].

    A position's number may serve in several passes: all but the last are undone by a rejection further ahead, which
    does not depend on it.
    """
    return np.stack([uniforms(seed, purpose, tokens) for seed in job.seeds])


class Frontier:
    """How far the images are decided, and the verification that moves this on.

    Args:
        lane: whose target's tokens are decided.
        job: the images.
        outcome: where decided tokens and counts go.
        rule: accepts drafted tokens.

    Attributes:
        known: tokens that are decided, of every image; [N].
        total: tokens of an image.
    """

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, rule: ChainRule) -> None:
        self._lane, self._outcome, self._rule = lane, outcome, rule
        self.total: int = outcome.tokens.shape[1]
        self.known = np.zeros(len(job.seeds), np.int64)
        self._uniforms, self._trials = job.target_uniforms, spread_uniforms(job, Purpose.TRIAL, self.total)
        self._scratch = np.zeros(lane.vocabulary, np.float32)
        self._rows = 0

    @property
    def open(self) -> bool:
        """Whether tokens are left to decide."""
        return bool((self.known < self.total).any())

    def ahead(self, image: int, window: int) -> int:
        """How many of the next `window` tokens the image still has."""
        return min(window, self.total - int(self.known[image]))

    def decide(self, image: int, target: NDArray[np.float32], draft: NDArray[np.float32], tokens: list[int]) -> int:
        """Verify drafted tokens behind the frontier, and move it behind those accepted and one replacement.

        Args:
            image: which.
            target: the target's distributions at the drafted tokens; [at least L, V].
            draft: the distributions that they were drawn from; [at least L, V].
            tokens: the drafted tokens; L.

        Returns:
            how many were accepted.
        """
        known, outcome = int(self.known[image]), self._outcome
        place = slice(known, known + len(tokens))
        verdict = verify_chain(
            self._rule, target, draft, tokens, self._trials[image, place], self._uniforms[image, place], self._scratch
        )
        decided = known + verdict.accepted
        outcome.tokens[image, known:decided] = tokens[: verdict.accepted]
        outcome.accept_map[image, known:decided] = Accept.ACCEPTED
        outcome.accepted[image] += verdict.accepted
        if verdict.replacement is not None:
            outcome.tokens[image, decided] = verdict.replacement
            outcome.accept_map[image, decided] = Accept.REJECTED
            outcome.resampled[image] += 1
            decided += 1
        self.known[image] = decided
        return verdict.accepted

    def add(self, image: int, token: int) -> None:
        """Decide the next token without a draft."""
        self._outcome.tokens[image, self.known[image]] = token
        self.known[image] += 1

    def finished_rows(self) -> Iterator[RowsDone]:
        """Tell of rows that are final in every image and were not told of."""
        rows = int(self.known.min()) // self._lane.grid[1]
        if rows > self._rows:
            self._rows = rows
            yield RowsDone(rows, self._lane.as_grid(self._outcome.tokens), self._outcome.accepted_share)
