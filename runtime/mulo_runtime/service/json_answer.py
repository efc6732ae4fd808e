"""Failures on the wire."""

from __future__ import annotations

from math import ceil

from mulo_runtime.service.asgi import Send
from mulo_runtime.service.failures import Failure

__all__ = ["failure_headers", "send_failure"]


def failure_headers(failure: Failure, wait: float = 1.0) -> dict[str, str]:
    """The headers of `failure`; `wait` is in how many seconds trying again makes sense."""
    headers = {"retry-after": str(max(ceil(wait), 1))} if failure.retry else {}
    return headers | ({"www-authenticate": "Bearer"} if failure.status == 401 else {})


async def send_failure(send: Send, failure: Failure) -> None:
    """Answer with `failure`; the connection is closed, for its body may be half read."""
    body = failure.body.model_dump_json().encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "connection": "close",
        **failure_headers(failure),
    }
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": failure.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
