"""The builder's own account of its progress, passed on a few times a second."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import Any

from mulo_engines.child import Progress, Report

__all__ = ["progress_monitor"]

_INTERVAL = 0.1


def progress_monitor(library: Any, report: Report) -> Any:
    """A monitor that reports the phase which the builder is in; its threads may call it at once."""

    class Monitor(library.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            library.IProgressMonitor.__init__(self)
            self._lock, self._totals, self._next = Lock(), dict[str, int](), 0.0

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            with self._lock:
                self._totals[phase] = steps
                self._tell(phase, 0)

        def step_complete(self, phase: str, step: int) -> bool:
            with self._lock:
                self._tell(phase, step + 1)
            return True

        def phase_finish(self, phase: str) -> None:
            with self._lock:
                self._totals.pop(phase, None)

        def _tell(self, phase: str, done: int) -> None:
            if monotonic() >= self._next:
                report(Progress(phase, done, self._totals.get(phase, 0)))
                self._next = monotonic() + _INTERVAL

    return Monitor()
