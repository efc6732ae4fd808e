"""What methods share that decide on one token of the target's grid after another, by distributions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance.chain_rule import ChainRule, verify_chain
from mulo_runtime.acceptance.verify_tree import verify_tree
from mulo_runtime.decoders.job import Accept, Job, Outcome
from mulo_runtime.draft_tree import DraftTree
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
        width: the most drafted tokens behind one.

    Attributes:
        known: tokens that are decided, of every image; [N].
        total: tokens of an image.
    """

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, rule: ChainRule, width: int = 1) -> None:
        self._lane, self._job, self._outcome, self._rule = lane, job, outcome, rule
        self.total: int = outcome.tokens.shape[1]
        self.known = np.zeros(len(job.seeds), np.int64)
        trials = spread_uniforms(job, Purpose.TRIAL, self.total * width)
        self._uniforms, self._trials = job.target_uniforms, trials.reshape(len(trials), self.total, width)
        self._scratch = np.zeros((3, lane.vocabulary), np.float32)
        self._rows = 0

    def begin(self) -> None:
        """Feed the condition to the target and decide token 0, which nobody drafts."""
        job = self._job
        job.guard()
        first = self._lane.target.begin(job.embeds["target"], job.visible, None, job.target_uniforms[:, :1])
        for image, token in enumerate(first.tokens[:, 0]):
            self.add(image, int(token))

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
            self._rule,
            target,
            draft,
            tokens,
            self._trials[image, place, 0],
            self._uniforms[image, place],
            self._scratch[0],
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

    def decide_branch(
        self, image: int, target: NDArray[np.float32], branches: DraftTree, drawn: NDArray[np.float32] | None
    ) -> list[int]:
        """Verify a tree of tokens drafted behind the frontier, and move it behind those accepted and one more.

        Args:
            image: which.
            target: the target's distributions behind the last decided token and behind every node; [1 + nodes, V].
            branches: the drafted tokens.
            drawn: what they were drawn from, by `branches.rows`; [rows, V]; None where they were chosen.

        Returns:
            the nodes that were accepted.
        """
        known, outcome = int(self.known[image]), self._outcome
        # A leaf at an image's end is followed by none; what is drawn there is dropped.
        trials, numbers = self._trials[image, known:], np.append(self._uniforms[image, known:], np.float32(0))
        path = verify_tree(self._rule, branches, drawn, target, trials, numbers, self._scratch)
        for node in path.nodes:
            outcome.accept_map[image, self.known[image]] = Accept.ACCEPTED
            self.add(image, branches.token(node))
        outcome.accepted[image] += len(path.nodes)
        if self.known[image] < self.total:
            if branches.children(path.nodes[-1] if path.nodes else -1):
                outcome.accept_map[image, self.known[image]] = Accept.REJECTED
                outcome.resampled[image] += 1
            self.add(image, path.next_token)
        return path.nodes

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
