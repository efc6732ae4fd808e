"""The service as a process: listens, and on SIGTERM finishes what it accepted."""

from __future__ import annotations

import signal
from math import ceil

import uvicorn

from mulo_runtime.pipeline import Pipeline
from mulo_runtime.service.app import build_app
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.logs import configure_logs

__all__ = ["serve"]


def serve(
    pipeline: Pipeline, limits: Limits, *, host: str, port: int, token: str | None = None, log_level: str = "info"
) -> None:
    """Serve until SIGTERM or SIGINT, then refuse new connections, finish what was accepted, and close `pipeline`.

    Args:
        pipeline: makes the images.
        limits: what requests may ask for.
        host: the address to listen at.
        port: likewise.
        token: the bearer token that requests need; None needs none.
        log_level: the lowest level that is logged.
    """
    configure_logs(log_level)
    config = uvicorn.Config(
        build_app(pipeline, limits, token=token),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=ceil(limits.drain_seconds),
    )
    # uvicorn raises the signal that ended it again, which would end this process before it has closed the pipeline.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with pipeline:
        uvicorn.Server(config).run()
