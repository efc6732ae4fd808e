"""The time that a check may take altogether."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from mulo_engines.errors import DeadlineExceeded

__all__ = ["Clock"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Counts down from `budget` seconds."""

    budget: float
    _start: float = field(default_factory=monotonic)

    def remaining(self, stage: str) -> float:
        """Seconds that are left for `stage`.

        Raises:
            DeadlineExceeded: none are.
        """
        left = self.budget - (monotonic() - self._start)
        if left <= 0:
            raise DeadlineExceeded(f"no time left for {stage}", fix="give a larger --budget, or fewer subjects")
        return left
