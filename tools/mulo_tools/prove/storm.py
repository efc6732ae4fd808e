"""`mulo prove-storm`: clients that cancel, dawdle and send nonsense, and images that stay right meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
import httpx
from mulo_engines.errors import MuloError
from mulo_runtime import Pipeline

from mulo_tools.prove.service_process import ServiceProcess, running_service
from mulo_tools.prove.storm_clients import Client, Expected, expected_images, make_clients

__all__ = ["storm_command"]

_LANES, _QUEUE, _AT_ONCE = 2, 4, 10


@click.command("prove-storm")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--requests", default=10_000, show_default=True, type=click.IntRange(50), help="Requests sent.")
@click.option("--seed", default=0, show_default=True, help="Seed of the storm.")
@click.option("--growth", default=0.02, show_default=True, help="Share by which memory may grow.")
def storm_command(bundle: Path, requests: int, seed: int, growth: float) -> None:
    """Storm a service over the bundle in the folder BUNDLE with every kind of client.

    Whole and streamed images, clients that go away, deadlines, malformed and oversized bodies, slow readers. Fails
    where an answer is not a documented one, an image is not that of the same seed alone, a lane is lost, or memory
    grows.
    """
    with Pipeline.open(bundle, threads=1) as pipeline:
        expected = expected_images(pipeline)
    options = ["--threads", "1", "--lanes", str(_LANES), "--queue", str(_QUEUE), "--log-level", "warning"]
    with TemporaryDirectory() as folder, running_service(bundle, options, Path(folder) / "log") as service:
        outcomes, sizes = asyncio.run(_storm(service, make_clients(requests, seed), expected))
        _require_idle(service)
    _tell(outcomes, sizes, growth)


async def _storm(
    service: ServiceProcess, clients: Sequence[Client], expected: Expected
) -> tuple[Counter[str], list[int]]:
    """The outcomes by name, and the service's resident bytes after every request."""
    outcomes, sizes, waiting = Counter[str](), list[int](), iter(clients)
    limits = httpx.Limits(max_connections=None)

    async def take_turns(http: httpx.AsyncClient) -> None:
        for client in waiting:
            outcomes[await client.ask(http, expected)] += 1
            sizes.append(service.resident_bytes())

    async with httpx.AsyncClient(base_url=service.url, timeout=120, limits=limits) as http:
        await asyncio.gather(*(take_turns(http) for _ in range(_AT_ONCE)))
    return outcomes, sizes


def _require_idle(service: ServiceProcess) -> None:
    """Refuse a service that has lost a lane or a place."""
    with httpx.Client(base_url=service.url, timeout=60) as http:
        for _ in range(100):
            answer = http.get("/readyz")
            load = json.loads(answer.content)
            if answer.status_code == 200 and load["free"] == _LANES and load["waiting"] == 0:
                return
    raise MuloError("the service lost a lane or a place", found=load, expected=f"{_LANES} free lanes, nobody waiting")


def _tell(outcomes: Counter[str], sizes: Sequence[int], limit: float) -> None:
    tenth = max(len(sizes) // 10, 1)
    # The first tenth fills caches and arenas.
    first, last = median(sizes[tenth : 2 * tenth]), median(sizes[-tenth:])
    growth = last / first - 1
    for name, count in sorted(outcomes.items()):
        click.echo(f"{count:7}  {name}")
    click.echo(f"resident memory {last / 2**20:.1f} MiB, grown by {growth:+.2%}; no lane lost, every image right")
    if growth > limit:
        raise MuloError("memory grows from request to request", found=f"{growth:+.2%}", expected=f"at most {limit:.0%}")
