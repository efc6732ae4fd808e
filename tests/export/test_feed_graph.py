"""The token log of a device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_models import load_graph
from mulo_engines.errors import EngineError
from mulo_export.graphs.feed import feed_graph

LOG = np.arange(12).reshape(2, 6)
ONES = np.ones(2, np.float32)


def sums(rows: int) -> dict[str, np.ndarray]:
    return {"probability": np.full((2, rows), 0.25, np.float32), "witness": ONES}


@pytest.mark.parametrize("guidance", [True, False])
def test_new_tokens_are_written_first_and_then_read_for_every_half(guidance: bool, tmp_path: Path) -> None:
    inputs = {
        "token_log": LOG,
        "new_tokens": np.array([[50, 51], [60, 61]]),
        "write_positions": np.array([[1, 4], [0, 5]]),
        "read_positions": np.array([[4, 2, 1], [5, 5, 1]]),
        **sums(2),
    }
    with load_graph(feed_graph(guidance), tmp_path / "feed.onnx") as engine:
        outputs = engine.run_once(inputs)
    assert outputs["token_log_out"].tolist() == [[0, 50, 2, 3, 51, 5], [60, 7, 8, 9, 10, 61]]
    assert outputs["token_ids"].tolist() == [[51, 2, 50], [61, 61, 7]] * (2 if guidance else 1)


def test_a_step_may_write_nothing_or_read_nothing(tmp_path: Path) -> None:
    nothing = np.zeros((2, 0), np.int64)
    inputs = {"token_log": LOG, "new_tokens": nothing, "write_positions": nothing, "read_positions": nothing, **sums(0)}
    with load_graph(feed_graph(guidance=True), tmp_path / "feed.onnx") as engine:
        outputs = engine.run_once(inputs)
    assert np.array_equal(outputs["token_log_out"], LOG)
    assert outputs["token_ids"].shape == (4, 0)


def test_a_position_outside_the_log_is_an_error(tmp_path: Path) -> None:
    one = np.zeros((2, 1), np.int64)
    inputs = {"token_log": LOG, "new_tokens": one, "write_positions": one + 6, "read_positions": one, **sums(1)}
    with load_graph(feed_graph(guidance=True), tmp_path / "feed.onnx") as engine, pytest.raises(EngineError):
        engine.run_once(inputs)


def test_what_is_not_finite_is_witnessed_for_its_image_and_for_good(tmp_path: Path) -> None:
    one = np.zeros((2, 1), np.int64)
    inputs = {"token_log": LOG, "new_tokens": one, "write_positions": one, "read_positions": one, **sums(1)}
    inputs["probability"] = np.array([[np.nan], [0.5]], np.float32)
    with load_graph(feed_graph(guidance=True), tmp_path / "feed.onnx") as engine:
        first = engine.run_once(inputs)["witness_out"]
        second = engine.run_once({**inputs, **sums(1), "witness": first})["witness_out"]
    assert np.array_equal(second, [np.nan, 1.75], equal_nan=True)
