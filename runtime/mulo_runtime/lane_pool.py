"""Lanes leased one request at a time, with a bounded queue before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Condition
from time import monotonic

from mulo_engines.errors import Busy, DeadlineExceeded, PipelineClosed

from mulo_runtime.lane import Lane

__all__ = ["LanePool"]


class LanePool:
    """A pool of lanes.

    Args:
        lanes: the lanes.
        queue: how many requests may wait for one; the next is refused with `Busy`.
    """

    def __init__(self, lanes: Sequence[Lane], queue: int) -> None:
        self._free, self._total, self._queue = list(lanes), len(lanes), queue
        self._waiting = 0
        self._closed = False
        self._changed = Condition()

    @contextmanager
    def lease(self, until: float | None) -> Iterator[Lane]:
        """Lease a lane; it is reset on the way out if its request did not end well.

        Args:
            until: the monotonic time at which waiting ends; None waits for ever.

        Raises:
            Busy: the queue is full.
            DeadlineExceeded: no lane came free in time.
            PipelineClosed: the pool was closed.
        """
        lane = self._take(until)
        finished = False
        try:
            yield lane
            finished = True
        finally:
            if not finished:
                lane.reset()
            with self._changed:
                self._free.append(lane)
                self._changed.notify_all()

    @contextmanager
    def lease_all(self) -> Iterator[Sequence[Lane]]:
        """Lease every lane; see `lease`."""
        with ExitStack() as leases:
            yield [leases.enter_context(self.lease(None)) for _ in range(self._total)]

    def close(self) -> None:
        """Refuse new requests and wait until every lane is back."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._free) == self._total)

    def _take(self, until: float | None) -> Lane:
        with self._changed:
            if not self._free and not self._closed and self._waiting >= self._queue:
                raise Busy(
                    "every lane is taken and the queue is full",
                    found=f"{self._total} lanes, {self._waiting} requests waiting",
                    fix="try again later, or open the pipeline with more lanes or a longer queue",
                )
            self._waiting += 1
            try:
                timeout = None if until is None else max(until - monotonic(), 0)
                ready = self._changed.wait_for(lambda: self._free or self._closed, timeout)
            finally:
                self._waiting -= 1
            if self._closed:
                raise PipelineClosed("the pipeline is closed", fix="open it again")
            if not ready:
                raise DeadlineExceeded("the deadline passed while the request waited for a lane")
            return self._free.pop()
