"""Whether a pipeline says the truth about itself: cold, warm, at work, stuck, failed, closed."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_engines.errors import Busy, EngineError, PipelineClosed
from mulo_runtime import AutoRegressive, MuloSD, Pipeline, ZipAR
from mulo_runtime.settings import SJD
from mulo_runtime.warm_up import walked_methods
from pipelines import Faults, MakePipeline, request

MULO = MuloSD(pool_k=4)


def test_a_pipeline_is_ready_after_its_warm_up_and_not_before(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=2)
    assert (pipeline.health().state, pipeline.health().ready) == ("cold", False)
    pipeline.warm_up()
    health = pipeline.health()
    assert (health.state, health.ready, health.live) == ("ready", True, True)
    assert health.step_seconds is not None
    pipeline.close()
    assert pipeline.health().state == "closed"
    assert not pipeline.health().ready


def test_health_steps_a_lane_and_does_not_change_the_next_image(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    expected = pipeline.generate(request(1, MULO)).tokens.tolist()
    calls = faults.calls
    assert pipeline.health().live
    assert faults.calls > calls
    assert pipeline.generate(request(1, MULO)).tokens.tolist() == expected


def test_a_failed_engine_is_found_and_a_mended_one_is_trusted_again(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    faults.arm(0, EngineError("the device fell off the bus"))
    health = pipeline.health()
    assert not health.live
    assert health.fault == "the device fell off the bus"
    assert pipeline.health().live


def test_lanes_at_work_are_judged_by_their_passes(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    stream = pipeline.stream(request(0, AutoRegressive()))
    next(stream)
    assert pipeline.health().live
    assert pipeline.health().step_seconds is None
    stuck = pipeline.health(silence=0.0)
    assert stuck.fault is not None
    assert "without a pass" in stuck.fault
    stream.close()
    assert pipeline.health(silence=0.0).live


def test_a_warm_up_that_fails_leaves_a_pipeline_that_is_not_ready_until_it_succeeds(
    faulty_pipeline: tuple[Pipeline, Faults],
) -> None:
    pipeline, faults = faulty_pipeline
    faults.arm(100, EngineError("injected"))
    with pytest.raises(EngineError):
        pipeline.warm_up()
    assert pipeline.health().state == "failed"
    faults.arm(None, EngineError("none"))
    pipeline.warm_up()
    assert pipeline.health().ready


def test_a_pipeline_that_is_drained_while_it_warms_up_does_not_become_ready(
    faulty_pipeline: tuple[Pipeline, Faults],
) -> None:
    pipeline, faults = faulty_pipeline

    def drain(calls: int) -> None:
        if calls == 50:
            pipeline.drain(0)

    faults.on_call = drain
    pipeline.warm_up()
    assert pipeline.health().state == "closed"


def test_a_closed_pipeline_cannot_be_warmed_up_and_stays_closed(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    pipeline.close()
    with pytest.raises(PipelineClosed):
        pipeline.warm_up()
    assert pipeline.state == "closed"


def test_a_warm_up_that_finds_the_queue_full_leaves_no_place_taken(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=2, queue=0)
    stream = pipeline.stream(request(0, MULO))
    next(stream)
    with pytest.raises(Busy):
        pipeline.warm_up(MULO)
    stream.close()
    assert pipeline.load().free == 2
    assert pipeline.load().waiting == 0
    pipeline.warm_up(MULO)
    assert pipeline.health().ready


def test_mulo_sd_is_walked_as_it_is_and_accepting_and_rejecting_all() -> None:
    walked = list(walked_methods([AutoRegressive(), MULO]))
    assert walked == [AutoRegressive(), MULO, MULO.with_changes(tau=0.0), MULO.with_changes(tau=2.0)]


@pytest.mark.parametrize("images", [1, 2])
def test_after_a_warm_up_no_lane_binds_anything_that_its_buckets_cover(
    open_pipeline: MakePipeline, images: int
) -> None:
    pipeline = open_pipeline(lanes=2, images=images)
    pipeline.warm_up()
    bound = [bindings(lane) for lane in pipeline._pool._free]
    assert bound[0] == bound[1]
    queries = {key[2] for key in bound[0]["target"]}
    assert queries >= {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}
    for seed, method in enumerate((MULO, ZipAR(2), MULO.with_changes(tau=0.02), AutoRegressive())):
        pipeline.generate_batch([request(seed, method)] * images)
    new = [
        {key[:3] for key in bindings(lane)["target"] - before["target"]}
        for lane, before in zip(pipeline._pool._free, bound, strict=True)
    ]
    known = {key[:3] for key in bound[0]["target"]}
    assert set().union(*new) <= known


def test_a_pipeline_is_warmed_up_again_after_a_method_that_wants_few_distributions(
    open_pipeline: MakePipeline,
) -> None:
    pipeline = open_pipeline(methods=[SJD(jacobi_window=2)])
    pipeline.warm_up()
    pipeline.generate(request(0, SJD(jacobi_window=2)))
    pipeline.warm_up()
    assert pipeline.health().ready


def bindings(lane: object) -> dict[str, set[tuple[int, ...]]]:
    return {name: set(getattr(lane, name).passes._inputs) for name in ("target", "drafter")}


def test_a_draining_pipeline_finishes_what_it_accepted_and_refuses_the_rest(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    stream = pipeline.stream(request(0, MULO))
    next(stream)
    assert not pipeline.drain(0.01)
    with pytest.raises(PipelineClosed):
        pipeline.generate(request(1, MULO))
    assert len(list(stream)) > 1
    assert pipeline.drain(1)


def test_lanes_share_the_engines_and_so_the_weights(open_pipeline: MakePipeline) -> None:
    lanes = open_pipeline(lanes=3)._pool._lanes
    assert len({id(lane.target.passes._engine) for lane in lanes}) == 1
    assert not np.shares_memory(lanes[0].target.passes._ids, lanes[1].target.passes._ids)
