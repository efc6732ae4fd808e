"""`mulo predict`: the cost model held against this processor, and what it says of GPUs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from mulo_engines.command import CommandGroup
from mulo_engines.errors import MuloError
from rich.console import Console

from mulo_tools.output import replacing
from mulo_tools.predict.ar_dtok import SIZES
from mulo_tools.predict.calibration import check, observe
from mulo_tools.predict.frontier import Predicted, predict
from mulo_tools.predict.gpus import GPUS, Gpu, Reached
from mulo_tools.predict.scenarios import PUBLISHED_PLAIN_SECONDS, scenarios
from mulo_tools.predict.table import check_table, frontier_table

__all__ = ["predict_group"]

_PATH = click.Path(path_type=Path)
_SHARE = click.FloatRange(0, 1, min_open=True)
_WIDTH = 190
"""Columns of a table that no terminal bounds."""
_REACHED = Reached()
_BASELINE = "a100"
"""The GPU of the published baseline."""


@click.group("predict", cls=CommandGroup)
def predict_group() -> None:
    """Predict seconds per image from launches, bytes and FLOP."""


@predict_group.command("check")
@click.option("--fit", "fitted", nargs=2, multiple=True, required=True, type=_PATH, help="BUNDLE REPORT to fit on.")
@click.option("--against", "others", nargs=2, multiple=True, type=_PATH, help="BUNDLE REPORT to predict; repeat it.")
@click.option("--within", default=0.15, show_default=True, type=click.FloatRange(0, min_open=True), help="Error.")
def check_command(fitted: Sequence[tuple[Path, Path]], others: Sequence[tuple[Path, Path]], within: float) -> None:
    """Fit the rates of a processor on the rows of some reports of `mulo bench`, and predict those of others.

    Fails where a prediction is off by more than --within.
    """
    machine, checked = check(
        [each for pair in fitted for each in observe(*pair)], [each for pair in others for each in observe(*pair)]
    )
    _console().print(check_table(checked))
    click.echo(json.dumps(asdict(machine)))
    worst = max(checked, key=lambda each: abs(each.error))
    # Not the other way round, so that nothing is within what is no number.
    if not abs(worst.error) <= within:
        raise MuloError(
            f"{worst.name}: the prediction is off", found=f"{worst.error:+.0%}", expected=f"within {within:.0%}"
        )


@predict_group.command("frontier")
@click.option("--gpu", "gpus", multiple=True, type=click.Choice(list(GPUS)), default=list(GPUS), show_default=True)
@click.option("--px", "sizes", multiple=True, type=click.Choice(SIZES), default=SIZES, show_default=True)
@click.option("--cache", type=click.Choice(["whole", "filled"]), default="whole", show_default=True, help="Slots read.")
@click.option(
    "--launch-us", default=1e6 * _REACHED.launch, show_default=True, type=click.FloatRange(0), help="A kernel."
)
@click.option("--bandwidth", default=_REACHED.bandwidth, show_default=True, type=_SHARE, help="Share reached.")
@click.option("--compute", default=_REACHED.compute, show_default=True, type=_SHARE, help="Share reached.")
@click.option("--json", "json_path", type=_PATH, help="Write the predictions to this file.")
def frontier_command(
    gpus: Sequence[str],
    sizes: Sequence[int],
    cache: str,
    launch_us: float,
    bandwidth: float,
    compute: float,
    json_path: Path | None,
) -> None:
    """Predict what methods gain on AR-DTok-LP in fp16, one image with guidance.

    What they accept on it is not known: each row says whose shares it takes. --cache whole is a compiled engine, whose
    attention reads the cache to its end; filled is attention that reads only what was written.
    """
    reached = Reached(bandwidth, compute, 1e-6 * launch_us)
    tables = {(gpu, px): _predicted(GPUS[gpu], px, cache == "filled", reached) for gpu in gpus for px in sizes}
    for (gpu, px), rows in tables.items():
        _console().print(frontier_table(f"AR-DTok-LP, {px} px, {GPUS[gpu].name}, {cache} cache", rows))
    if json_path is not None:
        entries = [
            {"gpu": gpu, "px": px, "cache": cache, **_entry(row)} for (gpu, px), rows in tables.items() for row in rows
        ]
        with replacing(json_path) as partial:
            partial.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def _predicted(gpu: Gpu, px: int, filled: bool, reached: Reached) -> list[Predicted]:
    methods = scenarios(px, filled=filled)
    pace = GPUS[_BASELINE].machine(reached).paced(methods[0].steps, PUBLISHED_PLAIN_SECONDS[px])
    return predict(methods, gpu.machine(reached), pace)


def _entry(row: Predicted) -> dict[str, Any]:
    scenario = row.scenario
    return {
        "method": scenario.method,
        "passes_from": scenario.source,
        "published": scenario.published,
        "target_passes": row.target_passes,
        "draft_passes": row.draft_passes,
        "predicted_seconds": dict(row.seconds),
        "predicted_speedups": dict(row.speedups),
    }


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDTH)
