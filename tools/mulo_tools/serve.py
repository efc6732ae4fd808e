"""`mulo serve`: a bundle behind HTTP."""

from __future__ import annotations

from pathlib import Path

import click
from mulo_engines.manifest import MANIFEST_NAME, read_manifest
from mulo_runtime import Pipeline
from mulo_runtime.service.image_requests import require_prompts
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.server import serve

__all__ = ["serve_command"]

_DEFAULTS = Limits()


@click.command("serve")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; 0.0.0.0 is every one.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--lanes", type=click.IntRange(1), default=1, show_default=True, help="Images made at once.")
@click.option("--queue", type=click.IntRange(0), default=16, show_default=True, help="Requests that may wait.")
@click.option("--threads", type=click.IntRange(0), default=0, show_default=True, help="0 takes every core.")
@click.option("--token", help="Bearer token that requests need; better given as MULO_SERVE_TOKEN.")
@click.option("--max-images", type=click.IntRange(1), default=_DEFAULTS.images, show_default=True, help="Largest n.")
@click.option(
    "--deadline", type=click.FloatRange(0, min_open=True), default=_DEFAULTS.deadline, show_default=True,
    help="Seconds that a request may take, waiting included.",
)  # fmt: skip
@click.option(
    "--drain", type=click.FloatRange(0), default=_DEFAULTS.drain_seconds, show_default=True,
    help="Seconds that accepted requests have left after SIGTERM.",
)  # fmt: skip
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def serve_command(
    bundle: Path,
    host: str,
    port: int,
    lanes: int,
    queue: int,
    threads: int,
    token: str | None,
    max_images: int,
    deadline: float,
    drain: float,
    log_level: str,
) -> None:
    """Serve the bundle in the folder BUNDLE: OpenAI's image interface, health, metrics, and a page at /.

    Requests are answered with 503 until every lane is warm. SIGTERM finishes what was accepted.
    """
    require_prompts(read_manifest(bundle / MANIFEST_NAME))
    limits = Limits(images=max_images, deadline=deadline, drain_seconds=drain)
    # Threads that wait actively would take the core that answers requests.
    pipeline = Pipeline.open(bundle, threads=threads, lanes=lanes, queue=queue, spinning=False)
    serve(pipeline, limits, host=host, port=port, token=token, log_level=log_level)
