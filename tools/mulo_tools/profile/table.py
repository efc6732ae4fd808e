"""A profile as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.table import Column, Table

from mulo_tools.profile.layers import CaseLayers, by_kind
from mulo_tools.profile.report import CeilingRow, GraphRow, LoopRow, ProfileReport, Quantiles

__all__ = ["layer_table", "profile_tables"]

_NOTHING = "–"
_SHOWN_KINDS = 8


def profile_tables(report: ProfileReport) -> Iterator[Table]:
    """The graphs against the machine's ceilings, and the phases of every method."""
    if report.ceilings is not None:
        yield _ceiling_table(report.ceilings)
    if report.graphs:
        yield _graph_table(report)
    for row in report.loops:
        yield _loop_table(row)


def layer_table(case_layers: CaseLayers) -> Table:
    """The operators that a graph spends most of its time in."""
    kinds = by_kind(case_layers.layers)
    total = sum(kinds.values())
    title = f"layers of {case_layers.case.graph}, {case_layers.case.label}"
    table = Table("operator", *_numbers("layers", "ms", "share"), box=SIMPLE, title=title)
    for kind, seconds in list(kinds.items())[:_SHOWN_KINDS]:
        count = sum(layer.kind == kind for layer in case_layers.layers)
        table.add_row(kind, str(count), _ms(seconds), f"{seconds / total:.0%}")
    return table


def _ceiling_table(row: CeilingRow) -> Table:
    table = Table("ceiling of this machine", *_numbers("measured"), box=SIMPLE)
    table.add_row("copy, bytes read and written", f"{row.copy_bytes_per_second / 1e9:,.1f} GB/s")
    table.add_row("matrix times a row, bytes read", f"{row.read_bytes_per_second / 1e9:,.1f} GB/s")
    if row.flop_per_second is not None:
        table.add_row("matrix times a matrix", f"{row.flop_per_second / 1e9:,.1f} GFLOP/s")
    return table


def _graph_table(report: ProfileReport) -> Table:
    headings = ("cold ms", "p50", "p95", "p99", "Polygraphy", "GB/s", "GFLOP/s", "limit ms", "of limit")
    table = Table("graph", "size", *_numbers(*headings), box=SIMPLE, caption=report.title)
    last = ""
    for row in report.graphs:
        table.add_row(row.graph if row.graph != last else "", row.size, *_graph_cells(row))
        last = row.graph
    return table


def _graph_cells(row: GraphRow) -> Iterator[str]:
    yield from _quantile_cells(row.seconds)
    yield _NOTHING if row.other_seconds is None else _ms(row.other_seconds.p50)
    yield f"{row.bytes_per_second / 1e9:,.1f}"
    yield f"{row.flop_per_second / 1e9:,.1f}" if row.flop else _NOTHING
    yield _NOTHING if row.limit_seconds is None else _ms(row.limit_seconds)
    yield _NOTHING if row.share_of_limit is None else f"{row.share_of_limit:.0%}"


def _loop_table(row: LoopRow) -> Table:
    passes = ", ".join(f"{count} {engine}" for engine, count in row.passes.items())
    caption = (
        f"opened in {row.opening_seconds:.2f} s; {row.seconds.runs} warm images; passes of the typical one: {passes}"
    )
    table = Table("phase", *_numbers("cold ms", "p50", "p95", "p99", "share"), box=SIMPLE, title=row.method)
    table.caption = caption
    middle = sum(phase.p50 for phase in row.phases.values())
    for name, phase in row.phases.items():
        table.add_row(name, *_quantile_cells(phase), f"{phase.p50 / middle:.0%}")
    table.add_row("whole image", *_quantile_cells(row.seconds), "", style="bold")
    return table


def _numbers(*headings: str) -> Iterator[Column]:
    return (Column(heading, justify="right", no_wrap=True) for heading in headings)


def _quantile_cells(seconds: Quantiles) -> Iterator[str]:
    return (_ms(value) for value in (seconds.cold, seconds.p50, seconds.p95, seconds.p99))


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.3f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"
