"""Predictions for GPUs: what the published baseline's pace gives back, and what a faster one changes."""

from __future__ import annotations

import pytest
from mulo_tools.predict.ar_dtok import SIZES, ar_dtok
from mulo_tools.predict.frontier import Predicted, predict
from mulo_tools.predict.gpus import GPUS, Reached
from mulo_tools.predict.scenarios import PUBLISHED_PLAIN_SECONDS, scenarios


@pytest.fixture(scope="module", params=SIZES)
def predicted(request: pytest.FixtureRequest) -> list[Predicted]:
    methods = scenarios(request.param, filled=True)
    gpu = GPUS["a100"].machine(Reached())
    return predict(methods, gpu, gpu.paced(methods[0].steps, PUBLISHED_PLAIN_SECONDS[request.param]))


def test_the_size_is_the_published_one() -> None:
    target = ar_dtok(1024).target
    assert target.layers[1] + target.output[1] == pytest.approx(632e6, rel=0.01)
    halves, slot = 2, 2 * 2 * target.record.layers * target.record.dim
    assert halves * slot == 300 * 1024


def test_plain_decoding_at_the_published_pace_takes_the_published_seconds(predicted: list[Predicted]) -> None:
    assert predicted[0].seconds["eager"] == pytest.approx(
        PUBLISHED_PLAIN_SECONDS[512 if predicted[0].target_passes == 1024 else 1024]
    )
    assert set(predicted[0].speedups.values()) == {1.0}


def test_published_speedups_come_back_at_the_published_pace(predicted: list[Predicted]) -> None:
    """Of methods published for these very models; a step took the same time there, whatever it held."""
    rows = [row for row in predicted if row.scenario.published and row.scenario.method.startswith(("ZipAR", "MuLo"))]
    assert len(rows) == 3
    for row in rows:
        assert row.speedups["eager"] == pytest.approx(row.scenario.published, rel=0.06)


def test_without_launches_verification_weighs_more(predicted: list[Predicted]) -> None:
    for row in predicted:
        assert row.seconds["none"] < row.seconds["graphs"] < row.seconds["eager"]
        if row.scenario.source.startswith("as published, Tar"):
            assert row.speedups["none"] < row.speedups["eager"]


def test_a_cache_that_is_read_whole_costs_mulo_sd_more_than_plain_decoding() -> None:
    gpu = GPUS["h200"].machine(Reached())
    whole, filled = (predict(scenarios(1024, filled=filled), gpu, gpu) for filled in (False, True))
    for long, short in zip(whole, filled, strict=True):
        assert long.seconds["graphs"] >= short.seconds["graphs"]
        if long.scenario.source.startswith("as published, Tar"):
            assert long.speedups["graphs"] < 0.9 * short.speedups["graphs"]
