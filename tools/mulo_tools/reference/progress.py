"""The progress display of a training run, and the history of its loss."""

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from mulo_tools.reference.training import Budget

REFRESH_STEPS = 10
HISTORY_STEPS = 50


History = list[tuple[int, float, float]]
"""Entries of (steps, seconds, mean loss since the entry before)."""


class Progress:
    """A bar with step, smoothed loss and time left; adds to `history` once in HISTORY_STEPS steps."""

    def __init__(self, name: str, budget: Budget, history: History, shown: bool = True) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, disable=not shown)
        self._task = self._bar.add_task(name, total=1.0)
        self._name = name
        self._budget = budget
        self._history = history
        self._losses: list[float] = []

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, step: int, seconds: float, loss: float) -> None:
        """Show the state after `step` steps."""
        self._losses.append(loss)
        if step % REFRESH_STEPS == 0:
            recent = self._losses[-REFRESH_STEPS:]
            self._bar.update(
                self._task,
                completed=min(1.0, self._budget.progress(step, seconds)),
                description=f"{self._name} step {step} loss {sum(recent) / len(recent):.3f}",
            )
        if step % HISTORY_STEPS == 0:
            self._history.append((step, seconds, sum(self._losses) / len(self._losses)))
            self._losses.clear()
