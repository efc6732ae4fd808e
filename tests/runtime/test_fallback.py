"""MuLo-SD is given up where the drafter is of little use, and the image is then the fallback's own."""

from __future__ import annotations

import pytest
from mulo_engines.errors import RequestError
from mulo_runtime import AutoRegressive, Fallback, MuloSD, RowsPreview, VerifiedPreview, ZipAR
from pipelines import MakePipeline, request

MULO = MuloSD(tau=0.3, pool_k=4)


@pytest.mark.parametrize("method", [ZipAR(2), AutoRegressive()], ids=str)
@pytest.mark.parametrize("images", [1, 2])
def test_below_the_floor_the_image_is_that_of_the_fallback_alone(
    open_pipeline: MakePipeline, method: ZipAR | AutoRegressive, images: int
) -> None:
    pipeline = open_pipeline(images=images)
    alone = pipeline.generate(request(3, method))
    fallen = pipeline.generate(request(3, MULO, fallback=Fallback(1.0, method)))
    assert fallen.tokens.tolist() == alone.tokens.tolist()
    assert fallen.method == method
    assert fallen.statistics.verified == 0
    share = fallen.statistics.abandoned_share
    assert share is not None
    assert share < 1
    assert set(fallen.statistics.phases) >= {"draft", "verify", "decode tokens"}
    assert "resample" not in fallen.statistics.phases


def test_above_the_floor_nothing_changes(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    plain = pipeline.generate(request(3, MULO))
    kept = pipeline.generate(request(3, MULO, fallback=Fallback(0.0)))
    assert kept.tokens.tolist() == plain.tokens.tolist()
    assert kept.statistics.abandoned_share is None
    assert kept.method == MULO


def test_a_method_that_verifies_nothing_has_nothing_to_fall_back_from(open_pipeline: MakePipeline) -> None:
    result = open_pipeline().generate(request(3, AutoRegressive(), fallback=Fallback(1.0)))
    assert result.method == AutoRegressive()


def test_a_stream_begins_anew_with_the_rows_of_the_fallback(open_pipeline: MakePipeline) -> None:
    events = list(open_pipeline().stream(request(3, MULO, fallback=Fallback(1.0))))
    assert not any(isinstance(event, VerifiedPreview) for event in events)
    assert [event.rows for event in events if isinstance(event, RowsPreview)] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan")])
def test_a_floor_that_is_no_share_is_refused(floor: float) -> None:
    with pytest.raises(RequestError, match="floor"):
        Fallback(floor)


def test_the_pooled_mass_of_the_candidates_is_told(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    accepting = pipeline.generate(request(3, MuloSD(tau=0.0, pool_k=4))).statistics
    wider = pipeline.generate(request(3, MuloSD(tau=0.0, pool_k=16))).statistics
    assert accepting.pooled_mass is not None
    assert wider.pooled_mass is not None
    assert 0 < accepting.pooled_mass < wider.pooled_mass < 1
    assert pipeline.generate(request(3, ZipAR(2))).statistics.pooled_mass is None
