"""An ASGI application as a response, for servers whose handlers are functions from requests to responses."""

from __future__ import annotations

from starlette.responses import Response

from mulo_runtime.service.asgi import Application, Receive, Scope, Send

__all__ = ["Served"]


class Served(Response):
    """Whatever `application` answers, which reads the request itself; the same for any number of requests."""

    def __init__(self, application: Application) -> None:
        # What a response holds is what it would send.
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of `scope`."""
        await self._application(scope, receive, send)
