"""A service that really listens, in a thread of this process, so that tests see its pipeline, too."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from mulo_runtime import Pipeline
from mulo_runtime.service.app import build_app
from mulo_runtime.service.limits import Limits

__all__ = ["GENERATIONS", "PROMPT", "Service", "eventually", "serving"]

GENERATIONS = "/v1/images/generations"
PROMPT = "red circle and blue square"


@dataclass(frozen=True, slots=True)
class Service:
    """A service and what it serves."""

    url: str
    pipeline: Pipeline

    def post(self, fields: Mapping[str, Any], **options: Any) -> httpx.Response:
        """Ask for images."""
        return httpx.post(self.url + GENERATIONS, json={"prompt": PROMPT, **fields}, timeout=60, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Get `path`."""
        return httpx.get(self.url + path, timeout=60, **options)

    def counted(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = [line for line in self.get("/metrics").text.splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def wait_idle(self) -> None:
        """Wait until every lane is free and nobody waits."""
        eventually(lambda: self.pipeline.load().free == self.pipeline.load().lanes and not self.pipeline.load().waiting)


def eventually(true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until `true` is, and fail where it does not become so."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not become true"
        time.sleep(0.005)


@contextmanager
def serving(
    pipeline: Pipeline, limits: Limits | None = None, token: str | None = None, *, warm: bool = True
) -> Iterator[Service]:
    """Serve `pipeline` on a free port, from when it is warm or, without `warm`, from when it listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(build_app(pipeline, limits, token=token), log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    service = Service(f"http://127.0.0.1:{listener.getsockname()[1]}", pipeline)
    try:
        eventually(lambda: server.started and (not warm or pipeline.state in ("ready", "failed")))
        yield service
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
