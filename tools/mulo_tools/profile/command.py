"""`mulo profile`: where the time of a bundle goes, and how far it is from what the machine can do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
from mulo_engines.backend import Backend
from mulo_engines.backends import BACKEND_NAMES, open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.errors import EngineUnavailable
from mulo_runtime import AutoRegressive, Method, default_method
from rich.console import Console
from rich.progress import track

from mulo_tools.bench.methods import method_title
from mulo_tools.condition_options import condition_options, condition_or_example
from mulo_tools.machine import describe_machine
from mulo_tools.method_options import parse_method
from mulo_tools.output import write_png
from mulo_tools.profile.cases import PROFILED_GRAPHS, Case, extremes
from mulo_tools.profile.ceilings import Ceilings, MatrixSize, measure_ceilings
from mulo_tools.profile.graph_times import CaseTime, OtherRunner, Timing, time_graph
from mulo_tools.profile.latency import Budget
from mulo_tools.profile.layers import CaseLayers, time_layers
from mulo_tools.profile.loop import LoopTimes, time_loop
from mulo_tools.profile.report import ProfileReport, ceiling_row, graph_row, layers_row, loop_row, write_profile
from mulo_tools.profile.table import layer_table, profile_tables
from mulo_tools.profile.timeline import Panel, draw_timeline
from mulo_tools.profile.trace import write_trace
from mulo_tools.record import bundle_digest

__all__ = ["profile_command"]

_PATH = click.Path(dir_okay=False, path_type=Path)
_T = TypeVar("_T")
_WIDTH = 150
"""Columns of a table that no terminal bounds."""


@dataclass(frozen=True, slots=True)
class _Profiled:
    """What is profiled, and on what."""

    bundle: Bundle
    backend_name: str
    backend: Backend
    threads: int


@click.command("profile")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--backend", type=click.Choice(BACKEND_NAMES), default="onnxruntime", show_default=True)
@click.option("--threads", default=0, type=click.IntRange(0), help="Threads of an engine call; 0 is all cores.")
@click.option("--graph", "graphs", type=click.Choice(PROFILED_GRAPHS), multiple=True, help="Only this one; repeatable.")
@click.option("--layers", "layered", type=click.Choice(PROFILED_GRAPHS), multiple=True, help="Time its layers, too.")
@click.option("--runs", default=100, show_default=True, type=click.IntRange(3), help="Warm runs of every size.")
@click.option("--seconds", default=0.5, show_default=True, type=click.FloatRange(0), help="At most, of every size.")
@click.option("--queries", default=256, show_default=True, type=click.IntRange(1), help="Most queries of a pass.")
@click.option("--images", default=10, show_default=True, type=click.IntRange(0), help="Warm images of every method.")
@click.option("--method", "specs", multiple=True, help='Such as "mulo-sd tau=0.1". [default: the bundle\'s, and ar]')
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the first image.")
@click.option(
    "--matrix", default=6144, show_default=True, type=click.IntRange(64), help="Width of the ceilings' matrix."
)
@click.option("--polygraphy/--no-polygraphy", default=True, help="Time graphs by Polygraphy's runner, too.")
@click.option("--json", "json_path", type=_PATH, help="Write everything to this file.")
@click.option("--png", "png_path", type=_PATH, help="Draw one image of every method, pass by pass.")
@click.option("--trace", "trace_path", type=_PATH, help="Write one image as a trace for ui.perfetto.dev.")
@condition_options
def profile_command(
    bundle: Path,
    backend: str,
    threads: int,
    graphs: Sequence[str],
    layered: Sequence[str],
    runs: int,
    seconds: float,
    queries: int,
    images: int,
    specs: Sequence[str],
    seed: int,
    matrix: int,
    polygraphy: bool,
    json_path: Path | None,
    png_path: Path | None,
    trace_path: Path | None,
    prompt: str | None,
    class_id: int | None,
    condition: Path | None,
) -> None:
    """Time every graph of BUNDLE at every size, and whole images phase by phase, against the machine's ceilings.

    Graphs run on buffers that are bound once, caches updated in place, as the loop runs them. Polygraphy's runner
    cannot bind: what it takes beyond that is what copying caches and allocating outputs cost. Bytes and FLOP are what a
    pass cannot do without; a share of the limit above 100 % tells that weights stayed in the processor's caches.
    """
    if not images and (png_path or trace_path):
        raise click.UsageError("--png and --trace show an image; give --images 1 or more")
    opened = Bundle.open(bundle)
    profiled = _Profiled(opened, backend, open_backend(backend, threads=threads), threads)
    methods = _methods(opened, specs) if images else []
    shown = condition_or_example(opened.manifest.condition, prompt, class_id, condition)
    timing = Timing(Budget(runs, seconds), queries, _polygraphy() if polygraphy else None)
    loops = [
        time_loop(bundle, method, shown, backend=backend, threads=threads, images=images, seed=seed)
        for method in _announced("images", methods)
    ]
    ceilings = _ceilings(profiled, matrix)
    times = _time_graphs(profiled, list(dict.fromkeys([*(graphs or PROFILED_GRAPHS), *layered])), timing)
    layers = _time_layers(profiled, [time.case for time in times if time.case.graph in layered])
    report = _report(profiled, ceilings, times, layers, loops)
    _print(report, layers)
    if json_path is not None:
        write_profile(report, json_path)
    if png_path is not None:
        write_png(png_path, draw_timeline("One image, pass by pass", report.title, [_panel(one) for one in loops]))
    if trace_path is not None:
        write_trace(trace_path, loops[0].typical, f"{method_title(loops[0].method)}, {report.bundle}")


def _methods(bundle: Bundle, specs: Sequence[str]) -> list[Method]:
    """The methods of `specs`; the bundle's MuLo-SD and plain decoding if there are none."""
    return [parse_method(bundle.manifest, spec) for spec in specs] or [
        default_method(bundle.manifest),
        AutoRegressive(),
    ]


def _polygraphy() -> OtherRunner:
    try:
        from mulo_tools.profile.polygraphy_runner import polygraphy_latency
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            "Polygraphy is not installed", fix="pip install 'mulo[profile]', or give --no-polygraphy"
        ) from error
    return polygraphy_latency


def _ceilings(profiled: _Profiled, width: int) -> Ceilings | None:
    """None where the backend runs nothing but compiled bundles; bfloat16 is as wide and as fast as float16."""
    exact = profiled.bundle.manifest.target.cache_dtype == "float32"
    try:
        return measure_ceilings(profiled.backend, "float32" if exact else "float16", MatrixSize(width=width))
    except EngineUnavailable as error:
        click.echo(f"the machine's ceilings are not measured: {error.what}", err=True)
        return None


def _time_graphs(profiled: _Profiled, graphs: Sequence[str], timing: Timing) -> list[CaseTime]:
    timed = _announced("graphs", graphs)
    return [time for graph in timed for time in time_graph(profiled.bundle, profiled.backend, graph, timing)]


def _time_layers(profiled: _Profiled, cases: Sequence[Case]) -> list[CaseLayers]:
    """The layers of every graph among `cases`, at its smallest and its largest size."""
    chosen = [each for graph in dict.fromkeys(case.graph for case in cases) for each in extremes(cases, graph)]
    return [time_layers(profiled.bundle, profiled.backend, case) for case in _announced("layers", chosen)]


def _announced(what: str, items: Sequence[_T]) -> Iterable[_T]:
    """`items`, with a bar on stderr that says how many are done."""
    return track(items, what, console=Console(stderr=True), transient=True)


def _report(
    profiled: _Profiled,
    ceilings: Ceilings | None,
    times: Sequence[CaseTime],
    layers: Sequence[CaseLayers],
    loops: Sequence[LoopTimes],
) -> ProfileReport:
    return ProfileReport(
        bundle=f"{profiled.bundle.path.name} {bundle_digest(profiled.bundle)[:12]}",
        backend=profiled.backend_name,
        machine=describe_machine(profiled.threads),
        ceilings=ceiling_row(ceilings),
        graphs=tuple(graph_row(time, ceilings) for time in times),
        layers=tuple(map(layers_row, layers)),
        loops=tuple(map(loop_row, loops)),
    )


def _print(report: ProfileReport, layers: Sequence[CaseLayers]) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for table in (*profile_tables(report), *map(layer_table, layers)):
        console.print(table)


def _panel(times: LoopTimes) -> Panel:
    image = times.typical
    statistics = image.result.statistics
    share = "" if statistics.accepted_share is None else f", {statistics.accepted_share:.0%} of the candidates accepted"
    note = f"{1000 * image.seconds:.0f} ms, {statistics.engines['target'].passes} target passes{share}"
    name, _, switches = method_title(times.method).partition(" ")
    return Panel(name, switches, note, image)
