"""What a decoder calls before every pass."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as Signal
from time import monotonic

from mulo_engines.errors import Cancelled, DeadlineExceeded

from mulo_runtime.lane import Lane

__all__ = ["make_guard"]


def make_guard(lane: Lane, until: float | None, cancel: Signal | None) -> Callable[[], None]:
    """A function that notes that `lane` is alive, and raises where its request has to stop.

    Args:
        lane: the lane that decodes.
        until: the monotonic time of the deadline, where there is one.
        cancel: set by another thread to stop the request, where it can be.
    """

    def guard() -> None:
        lane.stepped = now = monotonic()
        if cancel is not None and cancel.is_set():
            raise Cancelled("the request was cancelled")
        if until is not None and now > until:
            raise DeadlineExceeded("the deadline passed before the image was done")

    return guard
