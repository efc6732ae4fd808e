"""Server-sent events of an image that grows, ended when the reader goes away."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Response
from mulo_engines.errors import Cancelled

from mulo_runtime.service.asgi import Receive, Scope, Send, until_disconnect
from mulo_runtime.service.schema import CompletedEvent, ErrorResponse, PartialEvent

__all__ = ["EventStream", "event_bytes"]

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]


class EventStream(Response):
    """An ASGI answer that sends `events` as they come; they are closed whatever happens."""

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, or stop where the client goes away or stops reading."""
        async with aclosing(self._events):
            try:
                await until_disconnect(receive, self._send(send))
            except (Cancelled, TimeoutError):
                scope["state"]["status"] = 499

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def event_bytes(event: PartialEvent | CompletedEvent | ErrorResponse) -> bytes:
    """`event` on the wire, under its own name."""
    name = "error" if isinstance(event, ErrorResponse) else event.type
    return f"event: {name}\ndata: {event.model_dump_json()}\n\n".encode()
