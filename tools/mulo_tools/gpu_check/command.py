"""`mulo gpu-check`: whether this machine runs mulo, on which backends, and how near it comes to its own limit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from mulo_engines.backends import BACKEND_NAMES, open_backend
from mulo_engines.errors import EngineError, EngineUnavailable, MuloError, ParityError
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from mulo_tools.gpu_check.check import Finding, check
from mulo_tools.gpu_check.clock import Clock
from mulo_tools.gpu_check.subjects import SUBJECTS, prepare
from mulo_tools.output import replacing
from mulo_tools.profile.ceilings import MatrixSize, measure_ceilings

__all__ = ["gpu_check_command"]

_NOTHING = "–"
_WIDTH = 130
"""Columns of a table that no terminal bounds."""


@click.command("gpu-check")
@click.option("--backend", "backends", type=click.Choice(BACKEND_NAMES), multiple=True, help="[default: all that open]")
@click.option("--subject", "subjects", type=click.Choice(list(SUBJECTS)), multiple=True, help="[default: all]")
@click.option("--budget", default=330.0, show_default=True, type=click.FloatRange(1), help="Seconds altogether.")
@click.option("--threads", default=0, type=click.IntRange(0), help="Threads of an engine call, on the CPU; 0 is all.")
@click.option(
    "--matrix", default=6144, show_default=True, type=click.IntRange(64), help="Width of the ceilings' matrix."
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("build/gpu-check"))
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the findings here.")
def gpu_check_command(
    backends: Sequence[str],
    subjects: Sequence[str],
    budget: float,
    threads: int,
    matrix: int,
    folder: Path,
    json_path: Path | None,
) -> None:
    """Export, compile, verify and time the shipped family and models of published size, and print one table.

    Needs no network. What a machine lacks is told and left out; what the time does not suffice for, too. Bundles are
    kept in --folder for the next time.
    """
    clock = Clock(budget)
    opened = list(backends) or list(_available())
    bandwidths = {backend: _bandwidth(backend, threads, MatrixSize(width=matrix)) for backend in opened}
    findings = list(_findings(subjects or list(SUBJECTS), bandwidths, threads, folder, clock))
    if json_path is not None:
        with replacing(json_path) as partial:
            partial.write_text(json.dumps([asdict(finding) for finding in findings], indent=2) + "\n")
    _print(findings)
    _refuse_faults(findings)


def _available() -> Iterator[str]:
    """The backends that open here; what keeps the others from it is told."""
    for name in BACKEND_NAMES:
        try:
            open_backend(name)
        except EngineError as error:
            click.echo(f"{name} is left out: {error}", err=True)
        else:
            yield name


def _bandwidth(backend: str, threads: int, size: MatrixSize) -> float | None:
    """Bytes a second of the backend's memory; None where it runs nothing but compiled bundles."""
    try:
        return measure_ceilings(open_backend(backend, threads=threads), "float32", size).bytes
    except EngineUnavailable as error:
        click.echo(f"the bandwidth of {backend} is not measured: {error}", err=True)
        return None


def _findings(
    subjects: Sequence[str], bandwidths: Mapping[str, float | None], threads: int, folder: Path, clock: Clock
) -> Iterator[Finding]:
    """Every subject on every backend, announced on stderr."""
    for name in subjects:
        for backend, bandwidth in bandwidths.items():
            click.echo(f"{name} on {backend} ...", err=True)
            try:
                clock.remaining("another subject")
                bundle = prepare(SUBJECTS[name], folder / name)
            except MuloError as error:
                yield Finding(name, backend, failure=str(error))
            else:
                yield check(name, SUBJECTS[name], bundle, backend, threads, bandwidth, clock)


def _print(findings: Sequence[Finding]) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    headings = ("AR s/image", "MuLo-SD s/image", "step ms", "limit ms", "of limit")
    numbers = (Column(heading, justify="right", no_wrap=True) for heading in headings)
    table = Table("subject", "backend", "verified", *numbers, box=SIMPLE)
    for finding in findings:
        table.add_row(finding.subject, finding.backend, *_cells(finding))
    if any(len(finding.mulo_seconds) > 1 for finding in findings):
        table.caption = "MuLo-SD on random weights: from all candidates accepted to none"
    console.print(table)
    for finding in findings:
        if finding.failure is not None:
            console.print(f"{finding.subject} on {finding.backend}: {finding.failure}", markup=False)


def _cells(finding: Finding) -> Iterator[str]:
    yield _NOTHING if finding.agrees is None else "agrees" if finding.agrees else "[bold red]differs[/]"
    yield _NOTHING if finding.plain_seconds is None else f"{finding.plain_seconds:.3f}"
    yield " to ".join(f"{seconds:.3f}" for seconds in finding.mulo_seconds) or _NOTHING
    step, limit = finding.step_seconds, finding.limit_seconds
    yield from (_NOTHING if seconds is None else f"{1000 * seconds:.3f}" for seconds in (step, limit))
    yield _NOTHING if step is None or limit is None else f"{limit / step:.0%}"


def _refuse_faults(findings: Sequence[Finding]) -> None:
    """Raise what went wrong, so that the exit code tells.

    Raises:
        ParityError: a backend differs from ONNX Runtime on the CPU.
        MuloError: something was not checked.
    """
    differing = [f"{finding.subject} on {finding.backend}" for finding in findings if finding.agrees is False]
    if differing:
        raise ParityError(
            "a backend computes something else than ONNX Runtime on the CPU",
            found=", ".join(differing),
            fix="run `mulo verify` on the bundle, which tells the graph and the token",
        )
    failed = [f"{finding.subject} on {finding.backend}" for finding in findings if finding.failure is not None]
    if failed:
        raise MuloError("not everything was checked", found=", ".join(failed), fix="see above what stopped it")
