"""What a pipeline is there for, from its opening to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Literal

__all__ = ["Readiness", "State"]

State = Literal["cold", "warming", "ready", "failed", "closed"]
"""Opened; walking its branches; warm; a branch failed; serving nothing new."""


class Readiness:
    """The state of one pipeline; thread-safe."""

    def __init__(self) -> None:
        self._warmth: State = "cold"
        self._closed = False
        self._warming = Lock()

    @property
    def state(self) -> State:
        """Closed once it was closed, whatever a warm-up that still runs comes to."""
        return "closed" if self._closed else self._warmth

    @contextmanager
    def warming(self) -> Iterator[None]:
        """Warm up inside, one thread after the other: ready where that ends well, failed where it raises."""
        with self._warming:
            self._warmth = "warming"
            try:
                yield
            except BaseException:
                self._warmth = "failed"
                raise
            self._warmth = "ready"

    def close(self) -> None:
        """Serve nothing new from now on."""
        self._closed = True
