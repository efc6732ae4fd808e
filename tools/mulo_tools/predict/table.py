"""Predictions and checks as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from mulo_tools.predict.calibration import Checked
from mulo_tools.predict.frontier import HOSTS, Predicted

__all__ = ["check_table", "frontier_table"]


def check_table(checked: Sequence[Checked]) -> Table:
    """One line per measured method."""
    table = Table("method", "rates", "measured s", "predicted s", "error", box=SIMPLE)
    for column in table.columns[2:]:
        column.justify = "right"
    for each in checked:
        rates = "fitted on" if each.fitted else ""
        table.add_row(each.name, rates, f"{each.measured:.3f}", f"{each.predicted:.3f}", f"{each.error:+.0%}")
    return table


def frontier_table(title: str, predicted: Sequence[Predicted]) -> Table:
    """One line per method: what it is assumed to accept, seconds and speed-up under every kind of host."""
    caption = "; ".join(f"{host}: {meaning}" for host, meaning in HOSTS.items())
    headings = ("method", "passes from", "target", "draft", *HOSTS, "published")
    table = Table(*headings, box=SIMPLE, title=title, caption=f"PREDICTED, not measured. {caption}")
    for column in table.columns[2:]:
        column.justify = "right"
    for each in predicted:
        published = each.scenario.published
        table.add_row(
            each.scenario.method,
            each.scenario.source,
            f"{each.target_passes:.0f}",
            f"{each.draft_passes:.0f}",
            *(f"{each.seconds[host]:.2f} s {each.speedups[host]:5.2f}x" for host in HOSTS),
            "–" if published is None else f"{published:.2f}x",
        )
    return table
