"""What a decoder works on and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.stretch import Embeddings

__all__ = ["Accept", "Job", "Outcome"]


class Accept:
    """Entries of an accept map."""

    UNVERIFIED = 0
    ACCEPTED = 1
    REJECTED = 2
    NEIGHBOUR = 3


@dataclass(frozen=True, slots=True)
class Job:
    """N images to decode at once.

    Attributes:
        embeds: the condition of "target", and of "drafter" where needed; [B, P, D], B = 2 N where it is guided, else N.
        visible: which condition positions may be attended to; [N, P].
        target_uniforms: the numbers that draw the target's tokens; [N, rows * cols] of its grid.
        drafter_uniforms: the numbers that draw the drafter's tokens; likewise.
        seeds: the images' seeds, for methods that need numbers of further kinds; [N].
        guard: called before every pass; raises to stop the job.
        watched: whether somebody looks at events; else the decoder may save those that cost something.
    """

    embeds: Mapping[str, NDArray[Any]]
    visible: NDArray[np.bool_]
    target_uniforms: NDArray[np.float32]
    drafter_uniforms: NDArray[np.float32]
    seeds: Sequence[int]
    guard: Callable[[], None]
    watched: bool = True

    def condition(self, model: str) -> Embeddings:
        """The condition of `model`."""
        return self.embeds[model], self.visible


@dataclass(slots=True)
class Outcome:
    """What a decoder has made so far.

    Attributes:
        tokens: the image; [N, rows * cols] of the target's grid.
        accept_map: an `Accept` value per token; [N, rows * cols].
        drafted: tokens drawn by the drafter; [N].
        verified: candidates verified; [N].
        accepted: candidates accepted; [N].
        resampled: tokens drawn by the target in place of a candidate; [N].
        mass: the target's pooled mass of the candidates, summed; [N].
        rounds: rounds of draft, verify and resample.
    """

    tokens: NDArray[np.int64]
    accept_map: NDArray[np.uint8]
    drafted: NDArray[np.int64]
    verified: NDArray[np.int64]
    accepted: NDArray[np.int64]
    resampled: NDArray[np.int64]
    mass: NDArray[np.float64]
    rounds: int = 0

    @classmethod
    def blank(cls, images: int, tokens: int) -> Outcome:
        """Nothing decoded yet."""
        drafted, verified, accepted, resampled = np.zeros((4, images), np.int64)
        return cls(
            np.zeros((images, tokens), np.int64),
            np.zeros((images, tokens), np.uint8),
            drafted,
            verified,
            accepted,
            resampled,
            np.zeros(images),
        )

    @property
    def accepted_share(self) -> float | None:
        """Accepted candidates among those verified, over all images; None before any was verified."""
        verified = int(self.verified.sum())
        return float(self.accepted.sum()) / verified if verified else None
