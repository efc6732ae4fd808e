"""How long something takes, the first time and from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

__all__ = ["Budget", "Latency", "measure"]

_LEAST = 3


@dataclass(frozen=True, slots=True)
class Budget:
    """How often something is timed: `runs` times, or fewer once it took `seconds`."""

    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds that something took.

    Attributes:
        cold: the first time.
        warm: every later time.
    """

    cold: float
    warm: Sequence[float]

    def quantile(self, percent: float) -> float:
        """The time within which `percent` percent of the warm runs ended."""
        return float(np.percentile(self.warm, percent, method="higher"))


def measure(run: Callable[[], object], budget: Budget) -> Latency:
    """Time `run` once cold, and warm as often as `budget` allows, three times at least."""
    cold = _seconds(run)
    return Latency(cold, list(_warm(run, budget)))


def _warm(run: Callable[[], object], budget: Budget) -> Iterator[float]:
    spent = 0.0
    for count in range(budget.runs):
        if count >= _LEAST and spent > budget.seconds:
            return
        spent += (seconds := _seconds(run))
        yield seconds


def _seconds(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start
