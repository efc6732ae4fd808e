"""`mulo predict`: errors that say what is missing, and files of predictions that say what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from mulo_runtime import AutoRegressive, Method, ZipAR, method_name, method_settings
from mulo_tools.bench.report import Row
from mulo_tools.predict.generator import Generator
from mulo_tools.predict.machine import Machine
from mulo_tools.predict.observed import row_steps

RunMulo = Callable[..., Result]

CORE = Machine(2e-6, 1.5e10, 1e10, 4e10, 6e10, 9e8, 3e-4, copies=True, overlaps=False)
METHODS: list[Method] = [AutoRegressive(), ZipAR(1), ZipAR(2), ZipAR(3), ZipAR(5)]


@pytest.fixture
def rows(generator: Generator) -> list[Row]:
    """Rows whose times a known core would make."""
    rows = [
        Row(method=method_name(m), ratio=2, settings=method_settings(m), images=1, target_passes=1) for m in METHODS
    ]
    return [row.model_copy(update={"seconds_per_image": CORE.seconds(row_steps(generator, row))}) for row in rows]


def test_methods_are_predicted_from_others(
    mulo: RunMulo, measured_bundle: Path, write_rows: Callable[..., Path], rows: list[Row]
) -> None:
    report = write_rows(*rows)
    result = mulo("predict", "check", "--fit", measured_bundle, report, "--against", measured_bundle, report)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("zipar") == 8
    assert json.loads(result.stdout.splitlines()[-1])["copies"] is True


def test_a_prediction_that_is_off_fails(
    mulo: RunMulo, measured_bundle: Path, write_rows: Callable[..., Path], rows: list[Row]
) -> None:
    slow = rows[1].model_copy(update={"seconds_per_image": 3 * (rows[1].seconds_per_image or 0)})
    report = write_rows(rows[0], slow, *rows[2:])
    result = mulo("predict", "check", "--fit", measured_bundle, report)
    assert result.exit_code == 1
    assert "the prediction is off" in result.stderr


@pytest.mark.parametrize(
    ("kept", "about", "message"), [(3, None, "too few methods"), (5, "another", "about another bundle")]
)
def test_what_cannot_be_fitted_on_is_refused(
    mulo: RunMulo,
    measured_bundle: Path,
    write_rows: Callable[..., Path],
    rows: list[Row],
    kept: int,
    about: str | None,
    message: str,
) -> None:
    report = write_rows(*rows[:kept], about=about or measured_bundle.name)
    result = mulo("predict", "check", "--fit", measured_bundle, report)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds_per_image": None}, "no row was timed"),
        ({"method": "teleport"}, "none of this version's"),
        ({"settings": {"colour": 3}}, "none of this version's"),
        ({"method": "speculative", "settings": {}, "drafter_passes": 0}, "does not count the passes of its head"),
    ],
)
def test_rows_that_say_too_little_are_refused(
    mulo: RunMulo,
    measured_bundle: Path,
    write_rows: Callable[..., Path],
    rows: list[Row],
    changes: dict[str, object],
    message: str,
) -> None:
    report = write_rows(*(row.model_copy(update=changes) for row in rows))
    result = mulo("predict", "check", "--fit", measured_bundle, report)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("text", "message"), [(None, "cannot be read"), ("nonsense", "no report"), ("{}", "no report")]
)
def test_a_file_that_is_no_report_is_refused_by_name(
    mulo: RunMulo, measured_bundle: Path, tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    result = mulo("predict", "check", "--fit", measured_bundle, path)
    assert result.exit_code == 2
    assert message in result.stderr
    assert str(path) in result.stderr


def test_nothing_is_within_what_is_no_number(
    mulo: RunMulo, measured_bundle: Path, write_rows: Callable[..., Path], rows: list[Row]
) -> None:
    result = mulo("predict", "check", "--fit", measured_bundle, write_rows(*rows), "--within", "nan")
    assert result.exit_code == 1


def test_predictions_are_marked_as_such(mulo: RunMulo, tmp_path: Path) -> None:
    path = tmp_path / "frontier.json"
    result = mulo("predict", "frontier", "--gpu", "h200", "--px", 512, "--json", path)
    assert result.exit_code == 0, result.output
    assert "PREDICTED, not measured" in result.stdout
    entries = json.loads(path.read_text())
    assert {entry["gpu"] for entry in entries} == {"h200"}
    assert all({"passes_from", "predicted_seconds", "predicted_speedups"} <= entry.keys() for entry in entries)


def test_a_slower_launch_makes_a_slower_image(mulo: RunMulo, tmp_path: Path) -> None:
    path = tmp_path / "frontier.json"
    seconds = []
    for launch in (1, 10):
        mulo("predict", "frontier", "--gpu", "a100", "--px", 512, "--launch-us", launch, "--json", path)
        seconds.append(json.loads(path.read_text())[0]["predicted_seconds"]["graphs"])
    assert seconds[0] < seconds[1]
