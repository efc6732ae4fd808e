"""A report as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.box import SIMPLE
from rich.table import Table

from mulo_tools.bench.methods import method_title
from mulo_tools.bench.report import Report, Row, row_method

__all__ = ["report_table", "row_title"]

_NOTHING = "–"


def report_table(report: Report) -> Table:
    """One line per method."""
    machine = report.machine
    caption = f"{report.bundle} on {machine.processor}, {machine.threads} of {machine.cores} cores"
    table = Table(box=SIMPLE, caption=caption)
    for index, heading in enumerate(_COLUMNS):
        table.add_column(heading, justify="right" if index else "left", no_wrap=index > 0)
    for row in report.rows:
        table.add_row(*(cell(row) for cell in _COLUMNS.values()))
    return table


def row_title(row: Row) -> str:
    """The method and its switches."""
    return method_title(row_method(row))


def _interval(row: Row) -> str:
    if row.score_low is None or row.score_high is None:
        return _NOTHING
    return f"{100 * row.score_low:.1f}–{100 * row.score_high:.1f}"


def _number(attribute: str, form: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        value = getattr(row, attribute)
        return _NOTHING if value is None else format(value, form)

    return cell


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "method": row_title,
    "score": _number("score", ".1%"),
    "95 %": _interval,
    "vs AR ≥": _number("score_difference_low", "+.1%"),
    "texture": _number("texture_distance", ".2f"),
    "FID": _number("fid", ".2f"),
    "KID": _number("kid", ".3f"),
    "as AR": _number("agreement", ".0%"),
    "s/image": _number("seconds_per_image", ".3f"),
    "speed-up": _number("speedup", ".2f"),
    "passes": _number("target_passes", ".0f"),
    "queries": _number("target_queries", ".0f"),
    "drafter": _number("drafter_passes", ".0f"),
    "accepted": _number("accepted_share", ".0%"),
    "resampled": _number("resampled_share", ".0%"),
    "host": _number("host_share", ".0%"),
}
"""Headings and cells; passes and queries are the target's, drafter's passes beside them."""
