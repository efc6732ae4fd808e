"""Bodies that are too large, or take too long to arrive, are refused before anything reads them."""

from __future__ import annotations

import asyncio
from collections import deque

from mulo_runtime.service.asgi import Application, Message, Receive, Scope, Send
from mulo_runtime.service.failures import plain_failure
from mulo_runtime.service.json_answer import send_failure
from mulo_runtime.service.limits import Limits

__all__ = ["BodyLimit"]


class BodyLimit:
    """Reads every body whole, as far as the limits allow, and hands it on.

    Args:
        inner: the application.
        limits: bytes and seconds of a body.
    """

    def __init__(self, inner: Application, limits: Limits) -> None:
        self._inner, self._limits = inner, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                messages = await self._read(receive)
        except TimeoutError:
            late = f"the body did not arrive within {self._limits.body_seconds:g} s"
            await send_failure(send, plain_failure(408, "body_timeout", late))
            return
        if messages is None:
            large = f"the body is larger than {self._limits.body_bytes} bytes"
            await send_failure(send, plain_failure(413, "body_too_large", large))
            return
        await self._inner(scope, _replay(messages, receive), send)

    async def _read(self, receive: Receive) -> deque[Message] | None:
        """The messages of the body; None where it is too large."""
        messages, size = deque[Message](), 0
        while True:
            messages.append(message := await receive())
            size += len(message.get("body", b""))
            if size > self._limits.body_bytes:
                return None
            if not message.get("more_body", False):
                return messages


def _replay(messages: deque[Message], receive: Receive) -> Receive:
    async def replay() -> Message:
        return messages.popleft() if messages else await receive()

    return replay
