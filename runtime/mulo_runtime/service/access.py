"""Every request gets a number, a log line and a count."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from time import perf_counter

from mulo_runtime.service.asgi import Application, Message, Receive, Scope, Send
from mulo_runtime.service.metrics import Metrics

__all__ = ["AccessLog"]

_LOG = logging.getLogger(__name__)
_CLIENT_GONE = 499


class AccessLog:
    """The outermost layer.

    Args:
        inner: the application.
        metrics: counts answers.
        paths: the paths that are counted under their own name; any other is "other", so that scans count as one.
        send_seconds: how long a reader may leave a full connection unread.
    """

    def __init__(self, inner: Application, metrics: Metrics, paths: Sequence[str], send_seconds: float) -> None:
        self._inner, self._metrics, self._paths, self._patience = inner, metrics, frozenset(paths), send_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI; `scope["state"]` collects what the log line tells, "status" among it."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        state = scope["state"] = {**scope.get("state", {}), "request": secrets.token_hex(8), "status": _CLIENT_GONE}
        start = perf_counter()
        try:
            await self._inner(scope, receive, self._noting(state, send))
        except TimeoutError:
            state["status"] = _CLIENT_GONE
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.count_response(path, state["status"])
            seconds = round(perf_counter() - start, 4)
            told = {"method": scope["method"], "path": scope["path"], "seconds": seconds, **state}
            _LOG.info("request", extra={"fields": told})

    def _noting(self, state: dict[str, object], send: Send) -> Send:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                request = str(state["request"]).encode("ascii")
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request)]
            async with asyncio.timeout(self._patience):
                await send(message)

        return noting
