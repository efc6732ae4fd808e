"""The types of ASGI, and work that ends when its client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from mulo_engines.errors import Cancelled

__all__ = ["Application", "Message", "Receive", "Scope", "Send", "until_disconnect"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_T = TypeVar("_T")


async def until_disconnect(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """What `work` returns; it is cancelled as soon as the client is gone.

    Args:
        receive: the request's messages, whose body was read.
        work: what the client waits for.

    Raises:
        Cancelled: the client went away.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Cancelled("the client went away")
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
