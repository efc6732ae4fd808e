"""The frontier as a picture: speed-up over plain decoding against the score, one curve a method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from mulo_tools.bench.methods import spelled
from mulo_tools.bench.report import Report, Row
from mulo_tools.drawing import INK, PALE_INK, PAPER
from mulo_tools.output import replacing

__all__ = ["Curve", "curves", "draw_frontier"]

_KNOBS = ("tau", "window", "delta", "multiple", "nu", "nearest", "group", "jacobi_window")
"""Switches that move a method along its curve, the most telling first; all others make another curve."""
_COLOURS = ("#4674AD", "#E88E36", "#66A054", "#CE484C", "#8E6CAC", "#489994", "#B08A3C", "#687A94")
_MARKERS = "osD^vPX*"
_INCHES, _DPI = (11.0, 7.4), 150
_TICKS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_APART = 1.05
"""Ratio of two speed-ups below which the labels of a curve would overlap."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A method whose rows differ in one switch.

    Attributes:
        name: the method, and the switches that tell it from another curve of the method.
        knob: the switch along the curve; None where there is one point.
        rows: its rows in order of speed-up.
    """

    name: str
    knob: str | None
    rows: tuple[Row, ...]


def curves(rows: Sequence[Row]) -> list[Curve]:
    """The curves of the rows that were both timed and scored, in the order of their first rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.speedup is not None and row.score is not None:
            groups.setdefault((row.method, str(_fixed(row))), []).append(row)
    named = _names([group[0] for group in groups.values()])
    return [
        Curve(name, _knob(group), tuple(sorted(group, key=lambda row: row.speedup or 0)))
        for name, group in zip(named, groups.values(), strict=True)
    ]


def draw_frontier(report: Report, path: Path) -> None:
    """Draw the report's curves with the 95 % intervals of their scores; the PNG file appears whole or not at all.

    Args:
        report: with rows that were timed and scored; the first of them is plain decoding.
        path: where.
    """
    figure = Figure(_INCHES, dpi=_DPI, facecolor=_hex(PAPER), layout="constrained")
    axes = figure.add_subplot(facecolor=_hex(PAPER))
    drawn = curves(report.rows)
    for index, curve in enumerate(drawn):
        _draw_curve(axes, curve, _COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)])
    _draw_baseline(axes, report.rows[0])
    _dress(axes, report)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", facecolor=figure.get_facecolor())


def _fixed(row: Row) -> dict[str, Any]:
    """The switches that every row of a curve shares."""
    return {name: value for name, value in row.settings.items() if name not in _KNOBS}


def _knob(rows: Sequence[Row]) -> str | None:
    """The switch in which the rows differ."""
    return next((name for name in _KNOBS if len({row.settings.get(name) for row in rows}) > 1), None)


def _names(rows: Sequence[Row]) -> Iterator[str]:
    """The method of every curve, and what differs from the method's first curve."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        usual = first.setdefault(row.method, _fixed(row))
        others = [f"{name} {spelled(value)}" for name, value in _fixed(row).items() if value != usual.get(name)]
        yield ", ".join([row.method, *(text.replace("_", " ") for text in others)])


def _draw_curve(axes: Axes, curve: Curve, colour: str, marker: str) -> None:
    speedups = [row.speedup or 0 for row in curve.rows]
    scores = [row.score or 0 for row in curve.rows]
    spread = [
        [score - (row.score_low or 0) for row, score in zip(curve.rows, scores, strict=True)],
        [(row.score_high or 0) - score for row, score in zip(curve.rows, scores, strict=True)],
    ]
    axes.plot(speedups, scores, color=colour, linewidth=1.6, alpha=0.55, zorder=2)
    axes.errorbar(
        speedups,
        scores,
        spread,
        fmt=marker,
        color=colour,
        markersize=8,
        markeredgecolor=_hex(PAPER),
        markeredgewidth=1.2,
        elinewidth=1.3,
        capsize=0,
        label=curve.name if curve.knob is None else f"{curve.name}, by {curve.knob.replace('_', ' ')}",
        zorder=3,
    )
    _label(axes, curve, colour)


def _label(axes: Axes, curve: Curve, colour: str) -> None:
    """The knob's value over every interval, from the fastest row on, where it does not run into the one before."""
    last = inf
    for row in reversed(curve.rows):
        speedup = row.speedup or 0
        if curve.knob is not None and last / speedup > _APART:
            last = speedup
            place = (speedup, row.score_high or 0)
            value = str(row.settings[curve.knob])
            axes.annotate(value, place, (0, 4), textcoords="offset points", color=colour, fontsize=9, ha="center")


def _draw_baseline(axes: Axes, plain: Row) -> None:
    """The interval of plain decoding, across the picture."""
    if plain.score_low is not None and plain.score_high is not None:
        axes.axhspan(plain.score_low, plain.score_high, color=_hex(PALE_INK), alpha=0.10, linewidth=0, zorder=0)


def _dress(axes: Axes, report: Report) -> None:
    machine, scored = report.machine, max(row.images for row in report.rows)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("speed-up over plain decoding on the same engines (log)", color=_hex(INK), fontsize=11)
    axes.set_ylabel(f"score, 95 % interval ({scored} images)", color=_hex(INK), fontsize=11)
    axes.set_title("Speed and quality", loc="left", color=_hex(INK), fontsize=17, pad=26)
    subtitle = (
        f"{report.bundle} on {machine.processor}, {machine.threads} of {machine.cores} cores; upper right is better"
    )
    axes.text(0, 1.025, subtitle, transform=axes.transAxes, color=_hex(PALE_INK), fontsize=9.5)
    axes.grid(color=_hex(PALE_INK), alpha=0.18, linewidth=0.8)
    axes.tick_params(colors=_hex(PALE_INK), length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.margins(x=0.06, y=0.08)
    legend = axes.legend(frameon=False, fontsize=10, labelcolor=_hex(INK), ncols=3, loc="upper center")
    legend.set_bbox_to_anchor((0.5, -0.11))


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
