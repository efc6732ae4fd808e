"""`mulo soak`: many images in one process, whose memory must not grow and whose steps must not allocate."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import click
from mulo_engines.errors import MuloError
from mulo_runtime import AutoRegressive, Method, Pipeline
from rich.console import Console
from rich.progress import track

from mulo_tools.bench.cases import Case, cases_of
from mulo_tools.bench.memory_watch import (
    FreshPages,
    PythonPeak,
    StepWatch,
    largest_recurring,
    map_large_blocks_afresh,
    resident_bytes,
)

__all__ = ["refuse_growth", "soak_command"]

_STEP_LIMIT = 64 * 1024
_GROWTH_LIMIT = 0.01
_REPEATS = 3


@click.command("soak")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--images", default=500, show_default=True, type=click.IntRange(20), help="Images made.")
@click.option("--threads", default=0, type=click.IntRange(0), help="Threads of an engine call; 0 is all cores.")
def soak_command(bundle: Path, images: int, threads: int) -> None:
    """Make many images and watch memory, by plain decoding and by the bundle's MuLo-SD in turn.

    Fails where resident memory grows by more than 1 % between the first and the last tenth of the images, or where a
    step allocates 64 KiB or more, in Python or natively. Linux only.
    """
    map_large_blocks_afresh(_STEP_LIMIT)
    cases = cases_of("tune", images)
    with Pipeline.open(bundle, threads=threads) as pipeline:
        methods: list[Method] = [AutoRegressive(), pipeline.method]
        pipeline.warm_up(*methods)
        sizes = _resident(pipeline, methods, cases)
        native, python = (
            [measure(pipeline, method, cases[0]) for method in methods] for measure in (_native_step, _python_step)
        )
    growth = _growth(sizes)
    click.echo(f"resident memory {sizes[-1] / 2**20:.1f} MiB after {images} images, grown by {growth:+.2%}")
    click.echo(f"largest step {max(native)} bytes natively, {max(python)} bytes in Python")
    refuse_growth(growth, max(native + python))


def _resident(pipeline: Pipeline, methods: Sequence[Method], cases: Sequence[Case]) -> list[int]:
    """Resident bytes after every image."""
    sizes = []
    for index, case in enumerate(track(cases, "soaking", console=Console(stderr=True))):
        pipeline.generate(case.request(methods[index % len(methods)]))
        sizes.append(resident_bytes())
    return sizes


def _native_step(pipeline: Pipeline, method: Method, case: Case) -> int:
    """The most bytes that a step maps and touches whenever this image is made."""
    return largest_recurring([_watched(pipeline, method, case, FreshPages()) for _ in range(_REPEATS)])


def _python_step(pipeline: Pipeline, method: Method, case: Case) -> int:
    """The most bytes that a step's Python objects take."""
    tracemalloc.start()
    try:
        return max(_watched(pipeline, method, case, PythonPeak()))
    finally:
        tracemalloc.stop()


def _watched(pipeline: Pipeline, method: Method, case: Case, allocated: Callable[[], int]) -> list[int]:
    watch = StepWatch(allocated)
    pipeline.generate(case.request(method), cancel=watch)
    return watch.steps


def _growth(sizes: Sequence[int]) -> float:
    """How much larger the median of the last tenth is than that of the first."""
    tenth = max(len(sizes) // 10, 1)
    return median(sizes[-tenth:]) / median(sizes[:tenth]) - 1


def refuse_growth(growth: float, largest: int) -> None:
    """Refuse a soak that breaks a limit.

    Args:
        growth: share by which resident memory grew.
        largest: bytes of the largest step.

    Raises:
        MuloError: what was broken.
    """
    if growth > _GROWTH_LIMIT:
        raise MuloError(
            "memory grows from image to image", found=f"{growth:+.2%}", expected=f"at most {_GROWTH_LIMIT:.0%}"
        )
    if largest >= _STEP_LIMIT:
        raise MuloError("a step allocates", found=f"{largest} bytes", expected=f"less than {_STEP_LIMIT} bytes")
