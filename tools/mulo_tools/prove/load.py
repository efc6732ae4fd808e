"""`mulo prove-load`: asked for four times what it can do, a service is as fast as ever and refuses the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Self

import click
from mulo_engines.errors import MuloError
from mulo_engines.manifest import MANIFEST_NAME, read_manifest

from mulo_tools.prove.service_process import ServiceProcess, running_service

__all__ = ["Answers", "load_command", "refuse_load"]

_SERVICE_CORE, _CLIENTS_CORE = 0, 1
_LANES, _QUEUE = 1, 4
_OVERLOAD = 4
_TURNS = 3
_REFUSED = 429


@dataclass(frozen=True, slots=True)
class Answers:
    """What a service answered.

    Attributes:
        served: seconds from lane lease to last byte, of every accepted request: all but its wait in the queue.
        queued: their waits in the queue, in seconds.
        statuses: the statuses of all requests.
    """

    served: Sequence[float]
    queued: Sequence[float]
    statuses: Sequence[int]

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Self:
        """What the clients noted."""
        lines = [json.loads(line) for path in paths for line in path.read_text(encoding="ascii").splitlines()]
        accepted = [line for line in lines if line["status"] == 200]
        return cls(
            [line["seconds"] - line["queue_seconds"] for line in accepted],
            [line["queue_seconds"] for line in accepted],
            [line["status"] for line in lines],
        )

    @property
    def p95(self) -> float:
        """The 95th percentile of `served`."""
        return quantiles(self.served, n=20, method="inclusive")[-1]


@click.command("prove-load")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seconds", default=60, show_default=True, type=click.IntRange(6), help="Length of each measurement.")
@click.option("--slower", default=1.5, show_default=True, help="How much higher the 95th percentile may be.")
def load_command(bundle: Path, seconds: int, slower: float) -> None:
    """Measure a service over the bundle in the folder BUNDLE unloaded, and at four times its capacity.

    Service and clients have a core each, in both measurements, which take turns so that a machine that others use, too,
    slows both alike. Fails where the accepted requests' 95th percentile, from lane lease to last byte, is too high,
    where a wait in the queue is above its documented bound, or where a request is answered by anything but an image or
    429.
    """
    prompt = read_manifest(bundle / MANIFEST_NAME).prompt
    if prompt is None or not prompt.examples:
        raise MuloError("the bundle names no prompt to ask for", fix="use a bundle of `mulo-export reference`")
    options = ["--threads", "1", "--lanes", str(_LANES), "--queue", str(_QUEUE), "--log-level", "warning"]
    with TemporaryDirectory() as folder:
        place = Path(folder)
        with running_service(bundle, options, place / "log", core=_SERVICE_CORE) as service:
            alone, loaded = _take_turns(service, place, prompt.examples[0], seconds // _TURNS)
    _tell("unloaded", alone)
    _tell(f"asked {_OVERLOAD} times as often as it can", loaded)
    refuse_load(alone, loaded, slower)


def _take_turns(service: ServiceProcess, place: Path, prompt: str, seconds: int) -> tuple[Answers, Answers]:
    """What was answered unloaded, and under load."""
    alone, loaded = list[Path](), list[Path]()
    # As many clients as wait at most, with room for those that are refused meanwhile.
    clients = 4 * (_LANES + _QUEUE)
    for turn in range(_TURNS):
        alone.append(_ask(service, place / f"alone-{turn}", prompt, clients=1, rate=0.0, seconds=seconds))
        capacity = _LANES / median(Answers.read(alone).served)
        rate = _OVERLOAD * capacity / clients
        loaded.append(_ask(service, place / f"loaded-{turn}", prompt, clients=clients, rate=rate, seconds=seconds))
    return Answers.read(alone), Answers.read(loaded)


def _ask(service: ServiceProcess, out: Path, prompt: str, *, clients: int, rate: float, seconds: int) -> Path:
    """Have `clients` clients ask `rate` times a second each, and note the answers in `out`."""
    told = {"MULO_LOAD_RATE": str(rate), "MULO_LOAD_OUT": str(out), "MULO_LOAD_PROMPT": prompt}
    spec = find_spec("mulo_tools.prove.locustfile")
    assert spec is not None
    command = ["taskset", "--cpu-list", str(_CLIENTS_CORE), sys.executable, "-m", "locust", "--headless"]
    command += ["--locustfile", str(spec.origin), "--host", service.url, "--only-summary", "--loglevel", "ERROR"]
    # Clients begin one after the other, so that they ask one after the other and not all at once.
    command += ["--users", str(clients), "--spawn-rate", str(clients * rate or 1)]
    command += ["--run-time", f"{seconds}s", "--stop-timeout", "20"]
    out.touch()
    subprocess.run(command, env={**os.environ, **told}, check=True, capture_output=True)
    return out


def _tell(name: str, answers: Answers) -> None:
    refused = answers.statuses.count(_REFUSED)
    click.echo(
        f"{name}: {len(answers.served)} images, {refused} refused; lease to last byte median "
        f"{median(answers.served):.3f} s, p95 {answers.p95:.3f} s; longest wait {max(answers.queued):.2f} s"
    )


def refuse_load(alone: Answers, loaded: Answers, slower: float = 1.5) -> None:
    """Refuse a service that does not hold.

    Raises:
        MuloError: what did not hold.
    """
    if set(loaded.statuses) - {200, _REFUSED} or _REFUSED not in loaded.statuses:
        raise MuloError("overload is not refused", found=sorted(set(loaded.statuses)), expected="images and 429")
    if loaded.p95 > slower * alone.p95:
        raise MuloError(
            "what is accepted is served slower under load", found=f"p95 {loaded.p95:.3f} s",
            expected=f"at most {slower} times {alone.p95:.3f} s",
        )  # fmt: skip
    bound = ceil((_QUEUE + 1) / _LANES) * max(loaded.served)
    if max(loaded.queued) > bound:
        raise MuloError("a request waited too long", found=f"{max(loaded.queued):.2f} s", expected=f"{bound:.2f} s")
