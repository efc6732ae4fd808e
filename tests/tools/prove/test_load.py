"""The load test, short, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from mulo_engines.errors import MuloError
from mulo_tools.cli import main
from mulo_tools.prove.load import Answers, refuse_load

ALONE = Answers([0.1] * 20, [0.0] * 20, [200] * 20)
LOADED = Answers([0.12] * 20, [0.5] * 20, [200] * 20 + [429] * 60)


def test_what_holds_is_not_refused() -> None:
    refuse_load(ALONE, LOADED)


@pytest.mark.parametrize(
    ("loaded", "message"),
    [
        (Answers([0.16] * 20, [0.5] * 20, LOADED.statuses), "served slower"),
        (Answers([0.12] * 20, [0.61] * 20, LOADED.statuses), "waited too long"),
        (Answers([0.12] * 20, [0.5] * 20, [200, 429, 500]), "not refused"),
        (Answers([0.12] * 20, [0.5] * 20, [200] * 20), "not refused"),
    ],
)
def test_what_does_not_hold_is_refused(loaded: Answers, message: str) -> None:
    with pytest.raises(MuloError, match=message):
        refuse_load(ALONE, loaded)


def test_a_service_holds_under_four_times_its_capacity(shared_bundle: Callable[..., Path]) -> None:
    # So short a measurement on a machine that others use, too, tells little of the last 5 %; the long one does.
    arguments = ["prove-load", str(shared_bundle(ratio=4)), "--seconds", "6", "--slower", "6"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "refused" in result.output
