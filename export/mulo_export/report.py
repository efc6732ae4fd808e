"""What the command shows while and after it works: progress, the sizes, the parity, the engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mulo_engines.child import Progress as BuildProgress
from mulo_engines.child import Report as BuildReport
from mulo_engines.manifest import Manifest
from mulo_engines.tensorrt.record import EngineSetRecord
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

from mulo_export.inspect_checkpoint import Inspection
from mulo_export.options import ExportOptions
from mulo_export.precision import Precision
from mulo_export.sizes import plan_bundle, written_bytes
from mulo_export.sources import Sources
from mulo_export.weights import Progress as Report

__all__ = ["build_progress", "progress_bar", "show_engines", "show_inspection", "show_parity", "show_sizes"]


@contextmanager
def progress_bar(console: Console, sources: Sources, precision: Precision) -> Iterator[Report]:
    """Show how much of the weights has been written, and give what to call with every number of bytes."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("weights and parity", total=written_bytes(sources, precision))
        yield lambda count: progress.advance(task, count)


@contextmanager
def build_progress(console: Console) -> Iterator[Callable[[str], BuildReport]]:
    """Show which graph is built, in which phase and since when, and give what takes a graph's progress."""
    columns = (TextColumn("{task.fields[graph]}"), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", graph="", total=None)

        def reporter(graph: str) -> BuildReport:
            progress.reset(task, graph=graph, description="starting")

            def report(state: BuildProgress) -> None:
                progress.update(task, description=state.phase, completed=state.done, total=state.total)

            return report

        yield reporter


def show_engines(console: Console, record: EngineSetRecord, warnings: Iterable[str]) -> None:
    """Show what was built, and what did not work and does not matter to it."""
    numbers = [Column(name, justify="right") for name in ("profiles", "S", "plan MiB", "seconds", "peak MiB")]
    machine = "any GPU" if record.gpu is None else record.gpu.name
    table = Table("graph", "attention", *numbers, title=f"{record.backend} {record.builder_version}, {machine}")
    for engine in record.engines:
        sizes = engine.plan.size / 2**20, engine.build_seconds, engine.build_peak_bytes / 2**20
        slots = "" if engine.slots is None else str(engine.slots)
        figures = str(len(engine.profiles)), slots, *(f"{size:,.1f}" for size in sizes)
        table.add_row(engine.graph, engine.attention, *figures)
    console.print(table)
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow")


def show_parity(console: Console, manifest: Manifest) -> None:
    """Show how far every graph lies from its reference, or that nobody looked."""
    if manifest.parity_skipped:
        console.print("PARITY WAS SKIPPED: no graph of this bundle was compared with its reference.", style="bold red")
        return
    table = Table("graph", "metric", "value", "tolerance", title="parity")
    for record in manifest.parity:
        table.add_row(record.graph, record.metric, f"{record.value:.2g}", f"{record.tolerance:.2g}")
    console.print(table)


def show_inspection(console: Console, name: str, inspection: Inspection) -> None:
    """Show what a checkpoint is, and what it needs at every precision."""
    facts = Table(title=name, show_header=False)
    for fact, value in inspection.facts.items():
        facts.add_row(fact, value)
    sides = list(inspection.needs[0].caches)
    columns = [Column("weights", justify="right"), *(Column(f"KV cache, {side} px", justify="right") for side in sides)]
    needs = Table("precision", *columns, title="MiB; caches of one image with guidance")
    for need in inspection.needs:
        sizes = [need.weights, *need.caches.values()]
        needs.add_row(need.precision, *(f"{size / 2**20:,.1f}" for size in sizes))
    console.print(facts)
    console.print(needs)


def show_sizes(console: Console, sources: Sources, options: ExportOptions) -> None:
    """Show what one lane needs, part by part."""
    plan = plan_bundle(sources, options)
    title = f"{options.precision}, ratio {sources.ratio}: one lane, one image, rounds of one drafter row"
    table = Table("part", Column("MiB", justify="right"), title=title)
    for part, size in plan.parts.items():
        table.add_row(part, f"{size / 2**20:,.1f}")
    table.add_section()
    table.add_row("total", f"{plan.total / 2**20:,.1f}")
    console.print(table)
