"""The picture of the frontier: what belongs on one curve, and that every row is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mulo_runtime import AutoRegressive, Method, MuloSD, ZipAR, method_name, method_settings
from mulo_tools.bench.frontier import curves, draw_frontier
from mulo_tools.bench.report import Report, Row
from mulo_tools.machine import describe_machine
from PIL import Image


def row(method: Method, speedup: float | None, score: float | None) -> Row:
    ends = (None, None) if score is None else (score - 0.03, score + 0.03)
    return Row(
        method=method_name(method),
        ratio=2,
        settings=method_settings(method),
        images=100,
        score=score,
        score_low=ends[0],
        score_high=ends[1],
        speedup=speedup,
    )


ROWS = (
    row(AutoRegressive(), 1.0, 0.76),
    row(ZipAR(2), 1.8, 0.48),
    row(ZipAR(8), 1.02, 0.73),
    row(ZipAR(4), 1.4, 0.66),
    row(MuloSD(tau=0.1), 2.1, 0.84),
    row(MuloSD(tau=0.01), 2.3, 0.85),
    row(MuloSD(tau=0.1, guided="drafter"), 2.9, 0.83),
    row(ZipAR(16), None, 0.7),
)


def test_rows_that_differ_in_one_switch_are_one_curve_from_slow_to_fast() -> None:
    found = {curve.name: (curve.knob, [each.speedup for each in curve.rows]) for curve in curves(ROWS)}
    assert found == {
        "ar": (None, [1.0]),
        "zipar": ("window", [1.02, 1.4, 1.8]),
        "mulo-sd": ("tau", [2.1, 2.3]),
        "mulo-sd, guided drafter": (None, [2.9]),
    }


def test_a_picture_shows_more_where_there_is_more_to_show(tmp_path: Path) -> None:
    inks = []
    for count in (1, len(ROWS)):
        report = Report(bundle="b 0", machine=describe_machine(1), rows=ROWS[:count])
        draw_frontier(report, tmp_path / "frontier.png")
        with Image.open(tmp_path / "frontier.png") as image:
            assert image.width > 1000
            inks.append(len(np.unique(np.asarray(image.convert("RGB")).reshape(-1, 3), axis=0)))
    assert inks[0] < inks[1]
    assert [path.name for path in tmp_path.iterdir()] == ["frontier.png"]
