"""The events of a pipeline's thread, for a reader in an event loop that the thread never waits for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event as Signal

from mulo_runtime.previews import Preview
from mulo_runtime.request import Done, StreamEvent

__all__ = ["StreamThreads"]

_KEPT_BYTES = 8 * 2**20
"""Pixels kept for a slow reader; older previews are dropped, for every preview shows the whole image."""


class StreamThreads:
    """Threads that decode for event loops.

    Args:
        places: how many streams there may be at once; each has its thread, so that none waits unseen.
    """

    def __init__(self, places: int) -> None:
        self._executor = ThreadPoolExecutor(places, thread_name_prefix="mulo-stream")

    async def read(self, events: Generator[StreamEvent], cancel: Signal) -> AsyncGenerator[StreamEvent]:
        """What `events`, run in a thread, yields and raises; `cancel` is set when nobody reads any more."""
        mailbox = _Mailbox(asyncio.get_running_loop())
        self._executor.submit(_deliver, events, mailbox)
        try:
            while True:
                event = await mailbox.take()
                yield event
                if isinstance(event, Done):
                    return
        finally:
            cancel.set()

    def close(self) -> None:
        """Wait for the threads to end."""
        self._executor.shutdown()


class _Mailbox:
    """Events on their way from a thread to an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._filled = loop, asyncio.Event()
        self._previews = deque[Preview]()
        self._last: Done | BaseException | None = None

    def put(self, item: StreamEvent | BaseException) -> None:
        """Leave an event, or the error that ends them; from any thread."""
        self._loop.call_soon_threadsafe(self._add, item)

    async def take(self) -> StreamEvent:
        """The next event.

        Raises:
            BaseException: the error that ended them.
        """
        while not self._previews and self._last is None:
            self._filled.clear()
            await self._filled.wait()
        if self._previews:
            return self._previews.popleft()
        if isinstance(self._last, Done):
            return self._last
        assert self._last is not None
        raise self._last

    def _add(self, item: StreamEvent | BaseException) -> None:
        if isinstance(item, Done | BaseException):
            self._last = item
        else:
            self._previews.append(item)
            while len(self._previews) > 1 and sum(one.image.nbytes for one in self._previews) > _KEPT_BYTES:
                self._previews.popleft()
        self._filled.set()


def _deliver(events: Generator[StreamEvent], mailbox: _Mailbox) -> None:
    with closing(events):
        try:
            for event in events:
                mailbox.put(event)
        except BaseException as error:
            mailbox.put(error)
