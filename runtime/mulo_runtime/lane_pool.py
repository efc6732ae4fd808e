"""Lanes leased one request at a time, with a bounded queue before them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Condition
from threading import Event as Signal
from time import monotonic

from mulo_engines.errors import (
    Busy,
    Cancelled,
    DeadlineExceeded,
    DeviceFailed,
    EngineError,
    OutOfMemory,
    PipelineClosed,
)

from mulo_runtime.lane import Lane

__all__ = ["LanePool", "Load", "Ticket"]

_CANCEL_POLL = 0.05
"""Seconds between two looks of a waiting request at its cancel signal, which cannot wake it."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a pool is.

    Attributes:
        lanes: how many lanes there are.
        free: how many of them nobody holds.
        waiting: requests that wait for one.
        queue: how many may wait.
        silence: seconds since the last pass of the lane that has been silent for longest; None where none is held.
    """

    lanes: int
    free: int
    waiting: int
    queue: int
    silence: float | None


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A place before the lanes: the higher priority first, then who came first.

    Attributes:
        rank: the priority, negated.
        number: counts the tickets of a pool.
        entered: the monotonic time at which it was given.
    """

    rank: int
    number: int
    entered: float


class LanePool:
    """A pool of lanes.

    Args:
        lanes: the lanes.
        queue: how many requests may wait for one; the next is refused with `Busy`.
    """

    def __init__(self, lanes: Sequence[Lane], queue: int) -> None:
        self._lanes, self._free, self._queue = list(lanes), list(lanes), queue
        self._waiting: list[Ticket] = []
        self._numbers = count()
        self._admitting, self._closed = True, False
        self._failure: EngineError | None = None
        self._changed = Condition()

    def enter(self, priority: int = 0) -> Ticket:
        """Take a place, which `lease` gives up again; never waits.

        Raises:
            Busy: every lane is taken and the queue is full.
            PipelineClosed: the pool was closed, or is about to be.
            DeviceFailed: an earlier request left no lane that can be used.
        """
        with self._changed:
            self._refuse_failed()
            if not self._admitting:
                raise PipelineClosed("the pipeline is closed", fix="open it again")
            if len(self._waiting) >= len(self._free) + self._queue:
                raise Busy(
                    "every lane is taken and the queue is full",
                    found=f"{len(self._lanes)} lanes, {len(self._waiting)} requests waiting",
                    fix="try again later, or open the pipeline with more lanes or a longer queue",
                )
            ticket = Ticket(-priority, next(self._numbers), monotonic())
            insort(self._waiting, ticket)
            return ticket

    @contextmanager
    def lease(self, ticket: Ticket, until: float | None = None, cancel: Signal | None = None) -> Iterator[Lane]:
        """Wait for a lane and hold it; it is reset on the way out if its request did not end well.

        Args:
            ticket: the place in the queue.
            until: the monotonic time at which waiting ends; None waits for ever.
            cancel: ends waiting when it is set.

        Raises:
            DeadlineExceeded: no lane came free in time.
            Cancelled: as it says.
            PipelineClosed: the pool was closed.
        """
        with self._held(self._take(ticket, until, cancel)) as lane:
            yield lane

    @contextmanager
    def spare(self) -> Iterator[Lane | None]:
        """Hold a lane that nobody has or waits for; None where there is none."""
        with self._changed:
            lane = self._free.pop() if len(self._free) > len(self._waiting) and not self._closed else None
        if lane is None:
            yield None
            return
        with self._held(lane):
            yield lane

    @property
    def failure(self) -> EngineError | None:
        """What left no lane that can be used; None while there is one."""
        return self._failure

    def load(self) -> Load:
        """How busy the pool is now."""
        with self._changed:
            steps = [lane.stepped for lane in self._lanes if lane not in self._free]
            silence = monotonic() - min(steps) if steps else None
            return Load(len(self._lanes), len(self._free), len(self._waiting), self._queue, silence)

    def drain(self, seconds: float | None) -> bool:
        """Refuse new requests and wait until those that were accepted are done.

        Returns:
            Whether they were done within `seconds`; None waits for ever.
        """
        with self._changed:
            self._admitting = False
            return self._changed.wait_for(lambda: not self._waiting and self._all_back(), seconds)

    def close(self) -> None:
        """Refuse new and waiting requests and wait until every lane is back."""
        with self._changed:
            self._admitting, self._closed = False, True
            self._changed.notify_all()
            self._changed.wait_for(self._all_back)

    def _all_back(self) -> bool:
        return len(self._free) == len(self._lanes)

    @contextmanager
    def _held(self, lane: Lane) -> Iterator[Lane]:
        lane.stepped = monotonic()
        try:
            yield lane
        except BaseException as error:
            self._return(lane, self._fault_after(lane, error))
            raise
        self._return(lane, None)

    def _return(self, lane: Lane, fault: EngineError | None) -> None:
        """Take `lane` back unless it has a fault; where none is left, or the device is gone, the pool has failed."""
        with self._changed:
            if fault is None:
                self._free.append(lane)
            else:
                self._lanes.remove(lane)
            if isinstance(fault, DeviceFailed) or not self._lanes:
                self._failure = fault
            self._changed.notify_all()

    @staticmethod
    def _fault_after(lane: Lane, error: BaseException) -> EngineError | None:
        """Mend `lane` after a request that ended with `error`; what keeps it from serving again, if anything does."""
        if isinstance(error, DeviceFailed):
            return error
        try:
            if isinstance(error, OutOfMemory):
                lane.rebuild()
            else:
                lane.reset()
        except Exception as fault:
            return fault if isinstance(fault, EngineError) else EngineError("a lane cannot be mended", found=fault)
        return None

    def _take(self, ticket: Ticket, until: float | None, cancel: Signal | None) -> Lane:
        with self._changed:
            try:
                while not self._is_next(ticket):
                    self._changed.wait(_patience(until, cancel))
                return self._free.pop()
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _is_next(self, ticket: Ticket) -> bool:
        if self._closed:
            raise PipelineClosed("the pipeline is closed", fix="open it again")
        self._refuse_failed()
        return self._waiting.index(ticket) < len(self._free)

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            failed = "the device failed" if isinstance(self._failure, DeviceFailed) else "no lane is left"
            raise DeviceFailed(
                f"{failed} in an earlier request, and the pipeline serves no more",
                found=self._failure.what,
                fix="start the process again",
            )


def _patience(until: float | None, cancel: Signal | None) -> float | None:
    """Seconds to wait before the next look."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the request was cancelled while it waited for a lane")
    left = None if until is None else until - monotonic()
    if left is not None and left <= 0:
        raise DeadlineExceeded("the deadline passed while the request waited for a lane")
    if cancel is None:
        return left
    return _CANCEL_POLL if left is None else min(left, _CANCEL_POLL)
