"""What goes into a pipeline and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mulo_engines.errors import RequestError
from numpy.typing import NDArray

from mulo_runtime.conditions import Condition
from mulo_runtime.meter import Usage
from mulo_runtime.settings import Fallback, Method, Sampling

__all__ = ["Done", "DraftPreview", "Request", "Result", "RowsPreview", "Statistics", "StreamEvent", "VerifiedPreview"]

_SEED_LIMIT = 2**64


@dataclass(frozen=True, slots=True)
class Request:
    """One image to be made.

    Attributes:
        condition: what it shows.
        seed: 0 .. 2**64 - 1; None draws one, which the result tells.
        method: how it is decoded; None takes the bundle's MuLo-SD defaults.
        sampling: how tokens are drawn; None takes the bundle's defaults.
        deadline: seconds from now after which the request fails with `DeadlineExceeded`; None waits for ever.
        priority: requests that wait for a lane are served by it, the highest first; among equals who came first.
        fallback: when MuLo-SD is given up and for what; None never gives it up.
    """

    condition: Condition
    seed: int | None = None
    method: Method | None = None
    sampling: Sampling | None = None
    deadline: float | None = None
    priority: int = 0
    fallback: Fallback | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not 0 <= self.seed < _SEED_LIMIT:
            raise RequestError("the seed is out of range", found=self.seed, expected="0 to 2**64 - 1")
        if self.deadline is not None and not 0 <= self.deadline < float("inf"):
            raise RequestError("the deadline is out of range", found=self.deadline, expected="seconds, 0 or more")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What it took to make an image.

    Attributes:
        rounds: rounds of draft, verify and resample; 0 for methods without rounds.
        drafted: tokens drawn by the drafter.
        verified: candidates that the target verified.
        accepted: candidates that it accepted.
        rejected: candidates that it rejected.
        resampled: tokens drawn by the target in place of a candidate: the rejected and their neighbourhood.
        engines: passes, queries and seconds by engine; of the whole batch where images were decoded together.
        phases: the same by phase: condition, draft, upsample, verify, resample, resynchronise, decode.
        slow_runs: runs on a GPU that no CUDA graph served, for the warm-up met none of their size.
        seconds: wall clock from lane lease to decoded image.
        pooled_mass: the target's pooled mass of a candidate, on average; None where nothing was verified.
        abandoned_share: the accepted share at which MuLo-SD was given up for the request's fallback, whose counts the
            others then are, but for engines, phases and seconds; None where it was not.
        queue_seconds: how long the request waited for its lane.
    """

    rounds: int
    drafted: int
    verified: int
    accepted: int
    rejected: int
    resampled: int
    engines: Mapping[str, Usage]
    phases: Mapping[str, Usage]
    slow_runs: int
    seconds: float
    pooled_mass: float | None = None
    abandoned_share: float | None = None
    queue_seconds: float = 0.0

    @property
    def accepted_share(self) -> float | None:
        """Accepted candidates among those verified; None where nothing was verified."""
        return self.accepted / self.verified if self.verified else None

    @property
    def resampled_share(self) -> float | None:
        """Resampled tokens among those verified; None where nothing was verified."""
        return self.resampled / self.verified if self.verified else None

    @property
    def host_share(self) -> float:
        """Share of the wall clock that was spent outside the engines."""
        return 1 - sum(usage.seconds for usage in self.engines.values()) / self.seconds


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A finished image.

    Attributes:
        image: [height, width, 3] uint8.
        tokens: [rows, cols] of the target's grid.
        accept_map: per token 0 not verified, 1 accepted, 2 rejected, 3 resampled beside a rejection; [rows, cols].
        seed: the seed that was used.
        method: the method that was used.
        sampling: the sampling that was used.
        statistics: what it took.
    """

    image: NDArray[np.uint8]
    tokens: NDArray[np.int64]
    accept_map: NDArray[np.uint8]
    seed: int
    method: Method
    sampling: Sampling
    statistics: Statistics


@dataclass(frozen=True, slots=True, eq=False)
class DraftPreview:
    """The draft so far, decoded at low resolution; `rows` of its rows are drafted, `seconds` after the lane's lease."""

    rows: int
    image: NDArray[np.uint8]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedPreview:
    """The candidates of the first `rows` of `total` rows are verified, and those rejected are about to be resampled.

    Attributes:
        image: final rows and candidates.
        accept_map: per token 0 not verified, 1 accepted, 2 rejected, 3 resampled beside a rejection; [rows, cols].
        accepted_share: accepted candidates among those verified so far.
        seconds: since the lane's lease, without the time of whoever watches.
    """

    rows: int
    total: int
    image: NDArray[np.uint8]
    accept_map: NDArray[np.uint8]
    accepted_share: float | None
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class RowsPreview:
    """The image so far; its first `rows` of `total` rows of tokens are final, `seconds` after the lane's lease."""

    rows: int
    total: int
    image: NDArray[np.uint8]
    accepted_share: float | None
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """The finished image."""

    result: Result


StreamEvent = DraftPreview | VerifiedPreview | RowsPreview | Done
"""What `Pipeline.stream` yields; `Done` comes last and once."""
