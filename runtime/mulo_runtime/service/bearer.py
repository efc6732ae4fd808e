"""An optional bearer token before everything that makes images."""

from __future__ import annotations

import hmac

from mulo_runtime.service.asgi import Application, Receive, Scope, Send
from mulo_runtime.service.failures import plain_failure
from mulo_runtime.service.json_answer import send_failure

__all__ = ["BearerToken"]


class BearerToken:
    """Refuses requests below `/v1/` whose token is not the service's; compares in constant time.

    Args:
        inner: the application.
        token: the service's token.
    """

    def __init__(self, inner: Application, token: str) -> None:
        self._inner, self._wanted = inner, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                missing = plain_failure(401, "token", "the bearer token is missing or is not the service's")
                await send_failure(send, missing)
                return
        await self._inner(scope, receive, send)
