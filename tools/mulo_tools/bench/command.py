"""`mulo bench`: how good and how fast every method of a bundle is, measured and not computed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from mulo_engines.bundle import Bundle
from mulo_engines.errors import RequestError
from mulo_runtime import Method, MuloSD, Pipeline
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mulo_tools.bench.cases import SPLITS, Case, cases_of
from mulo_tools.bench.classifier_features import classifier_features
from mulo_tools.bench.methods import chosen_methods
from mulo_tools.bench.profile import profile_table
from mulo_tools.bench.reconstruction import Describe, reconstruction_features
from mulo_tools.bench.report import Report, write_report
from mulo_tools.bench.rows import MINIMUM_TEXTURES, make_row
from mulo_tools.bench.scoring import Scored, ScorerSettings, split_work
from mulo_tools.bench.store import ScoreStore, TimeStore
from mulo_tools.bench.table import report_table
from mulo_tools.bench.texture import texture_features
from mulo_tools.bench.timing import Timed, time_methods
from mulo_tools.bench.workers import score_all
from mulo_tools.machine import describe_machine
from mulo_tools.record import bundle_digest

__all__ = ["bench_command"]

_RECONSTRUCTIONS = 2000
_WIDTH = 190
"""Columns of a table that no terminal bounds."""
_PATH = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class _Bench:
    """What is measured, and where progress is shown."""

    bundle: Bundle
    methods: tuple[Method, ...]
    progress: Progress


@click.command("bench")
@click.argument("bundle", type=_PATH)
@click.option("--images", default=30, show_default=True, type=click.IntRange(0), help="Images timed per method.")
@click.option(
    "--prompts", default=1000, show_default=True, type=click.IntRange(0, 100_000), help="Images scored per method."
)
@click.option("--split", type=click.Choice(list(SPLITS)), default="tune", show_default=True, help="Held-out prompts.")
@click.option("--method", "specs", multiple=True, help='Such as "mulo-sd tau=0.1"; repeat it. [default: a set]')
@click.option("--threads", default=0, type=click.IntRange(0), help="Threads of timed engine calls; 0 is all cores.")
@click.option("--batch", default=8, show_default=True, type=click.IntRange(1), help="Images scored together.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1), help="Processes that score.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 999), help="Other images of the prompts.")
@click.option("--json", "json_path", type=_PATH, help="Write the report to this file.")
@click.option("--out-dir", type=_PATH, help="Keep scored images here, and reuse those of an earlier run.")
@click.option("--features", is_flag=True, help="FID and KID of a small classifier's features (extra: metrics).")
@click.option("--picture", type=_PATH, help="Draw the frontier of speed and score to this PNG file.")
@click.option("--profile", is_flag=True, help="Show where the time of MuLo-SD's images goes.")
def bench_command(
    bundle: Path,
    images: int,
    prompts: int,
    split: str,
    specs: tuple[str, ...],
    threads: int,
    batch: int,
    workers: int,
    seed: int,
    json_path: Path | None,
    out_dir: Path | None,
    features: bool,
    picture: Path | None,
    profile: bool,
) -> None:
    """Measure the quality and the time of every method of BUNDLE.

    Images are timed one at a time, all methods in turn; a speed-up is the median of the ratios to plain decoding of the
    same prompt. Scores are of held-out prompts, the same prompts and seeds for every method: choose settings on the
    split "tune" (scene seeds from 1000000 on), and report on the split "report" (from 2000000 on). With --out-dir, a
    bench that was cut short goes on where it stopped.
    """
    if picture is not None and not (images and prompts):
        raise RequestError("a picture needs both times and scores", expected="--images and --prompts above 0")
    opened = Bundle.open(bundle)
    cases = cases_of(split, max(images, prompts), seed)
    with _progress() as progress:
        bench = _Bench(opened, tuple(chosen_methods(opened.manifest, specs)), progress)
        digest = bundle_digest(opened)
        timed = _time(bench, cases[:images], TimeStore(out_dir, digest, threads), threads)
        settings = ScorerSettings(opened.path, bench.methods, batch, 1, features)
        scored = _score(bench, cases[:prompts], ScoreStore(out_dir, digest), settings, workers)
        reached = _reachable(bench, split, features, out_dir) if prompts >= MINIMUM_TEXTURES else {}
    ratio = opened.manifest.ratio
    report = Report(
        bundle=f"{opened.path.name} {bundle_digest(opened)[:12]}",
        machine=describe_machine(threads),
        rows=tuple(make_row(method, ratio, timed, scored, reached) for method in bench.methods),
    )
    if json_path is not None:
        write_report(report, json_path)
    if picture is not None:
        _draw(report, picture)
    _print(report, timed if profile else [])


def _time(bench: _Bench, cases: Sequence[Case], store: TimeStore, threads: int) -> list[Timed]:
    """Time the cases that the store does not hold yet, each by all methods in turn; returns all of this bench's."""
    methods, seeds = bench.methods, {case.seed for case in cases}
    timed = {(image.method, image.seed): image for image in store.read()}
    left = [case for case in cases if not all((method, case.seed) in timed for method in methods)]
    task = bench.progress.add_task("timed images", total=len(cases) * len(methods))
    bench.progress.advance(task, (len(cases) - len(left)) * len(methods))
    if left:
        with Pipeline.open(bench.bundle.path, threads=threads, verify=False, methods=methods) as pipeline:
            pipeline.warm_up(*methods)
            for image in time_methods(pipeline, methods, left):
                store.append([image])
                timed[image.method, image.seed] = image
                bench.progress.advance(task)
    return [image for (method, seed), image in timed.items() if method in methods and seed in seeds]


def _score(
    bench: _Bench, cases: Sequence[Case], store: ScoreStore, settings: ScorerSettings, workers: int
) -> list[Scored]:
    """Score what the store does not hold yet; returns the images of this bench's methods and cases only."""
    wanted = {(method, case.seed) for method in bench.methods for case in cases}
    scored = {
        (image.method, image.seed): image
        for image in store.read()
        if image.features is not None or not settings.features
    }
    works = split_work(bench.methods, cases, set(scored), settings.batch)
    task = bench.progress.add_task("scored images", total=len(wanted), completed=len(wanted & scored.keys()))
    for images in score_all(settings, works, workers):
        store.append(images)
        scored.update({(image.method, image.seed): image for image in images})
        bench.progress.advance(task, len(images))
    return [image for key, image in scored.items() if key in wanted]


def _reachable(bench: _Bench, split: str, features: bool, cache: Path | None) -> Mapping[str, NDArray[np.float64]]:
    """Features that a perfect target would reach."""
    kinds: dict[str, Describe] = {"textures": texture_features}
    if features:
        kinds["features"] = classifier_features()
    task = bench.progress.add_task("reconstructed pictures", total=_RECONSTRUCTIONS)
    reached = reconstruction_features(bench.bundle, split, _RECONSTRUCTIONS, kinds, cache)
    bench.progress.advance(task, _RECONSTRUCTIONS)
    return reached


def _draw(report: Report, path: Path) -> None:
    from mulo_tools.bench.frontier import draw_frontier

    draw_frontier(report, path)


def _print(report: Report, profiled: Sequence[Timed]) -> None:
    """The table, and where the time of MuLo-SD's `profiled` images went."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(report_table(report))
    for method in dict.fromkeys(image.method for image in profiled):
        if isinstance(method, MuloSD):
            console.print(profile_table(method, profiled))


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))
