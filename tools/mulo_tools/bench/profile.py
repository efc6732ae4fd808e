"""Where the time of an image goes, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from mulo_runtime import Method, Statistics
from rich.box import SIMPLE
from rich.table import Table

from mulo_tools.bench.methods import method_title
from mulo_tools.bench.timing import Timed

__all__ = ["profile_table"]


def profile_table(method: Method, timed: Sequence[Timed]) -> Table:
    """Mean milliseconds that the engines took in every phase of `method`, and the host beside them."""
    own = [image.statistics for image in timed if image.method == method]
    milliseconds = {phase: _mean(own, phase) for phase in dict.fromkeys(phase for one in own for phase in one.phases)}
    milliseconds["host"] = fmean(1000 * one.host_share * one.seconds for one in own)
    table = Table("phase", box=SIMPLE, title=method_title(method))
    for heading in ("ms", "share"):
        table.add_column(heading, justify="right")
    for phase, value in milliseconds.items():
        table.add_row(phase, f"{value:.1f}", f"{value / sum(milliseconds.values()):.1%}")
    return table


def _mean(statistics: Sequence[Statistics], phase: str) -> float:
    return fmean(1000 * one.phases[phase].seconds if phase in one.phases else 0.0 for one in statistics)
