"""The deployment on a real Ray Serve with two replicas: images, streams, errors, back-pressure, a killed replica."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeBundle
from mulo_engines.errors import DeviceFailed, EngineError, PromptError
from mulo_runtime import AutoRegressive, Done, DraftPreview, Pipeline, Prompt, Request, Result
from mulo_runtime.scale_out.ray_serve import Replica, ReplicaSettings, build_app
from pydantic import ValidationError
from ray import serve
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import BackPressureError
from ray_clusters import ray_cluster, worker_pids

pytestmark = pytest.mark.timeout(600)

PROMPT = Prompt("red circle and blue square")
QUEUE = 4
REPLICAS = 2
REPLICA = "ray::ServeReplica:mulo-test:"


@pytest.fixture(scope="module")
def bundle(shared_bundle: MakeBundle) -> Path:
    return shared_bundle(ratio=4)


@pytest.fixture(scope="module")
def handle(bundle: Path) -> Iterator[Any]:
    settings = ReplicaSettings(bundle=bundle, queue=QUEUE, min_replicas=REPLICAS, max_replicas=REPLICAS)
    with ray_cluster():
        yield serve.run(build_app(settings), name="mulo-test", route_prefix=None)
        serve.shutdown()


@pytest.fixture(scope="module")
def expected(bundle: Path) -> Iterator[Pipeline]:
    with Pipeline.open(bundle, threads=1) as pipeline:
        yield pipeline


def slow(seed: int) -> Request:
    """A request that takes its time."""
    return Request(PROMPT, seed=seed, method=AutoRegressive())


def same(first: Result, second: Result) -> bool:
    return bool((first.image == second.image).all() and (first.tokens == second.tokens).all())


def test_two_replicas_make_the_images_that_the_pipeline_makes(handle: Any, expected: Pipeline) -> None:
    requests = [slow(seed) for seed in range(4)]
    responses = [handle.generate.remote(request) for request in requests]
    for request, response in zip(requests, responses, strict=True):
        assert same(response.result(timeout_s=120), expected.generate(request))
    assert len(worker_pids(REPLICA)) == REPLICAS


def test_a_stream_shows_the_draft_first_and_ends_with_the_image(handle: Any, expected: Pipeline) -> None:
    request = Request(PROMPT, seed=7)
    events = list(handle.options(stream=True).stream.remote(request))
    assert isinstance(events[0], DraftPreview)
    assert isinstance(events[-1], Done)
    assert same(events[-1].result, expected.generate(request))


def test_an_error_is_that_of_the_pipeline(handle: Any) -> None:
    with pytest.raises(PromptError, match="mauve"):
        handle.generate.remote(Request(Prompt("a mauve circle"))).result(timeout_s=120)


def test_what_neither_lanes_nor_queue_hold_is_refused_at_once(handle: Any) -> None:
    responses = [handle.generate.remote(slow(seed)) for seed in range(8 * (REPLICAS + QUEUE))]
    outcomes = [outcome(response) for response in responses]
    assert set(outcomes) == {"done", "BackPressureError"}
    assert outcomes.count("done") >= QUEUE


def test_a_killed_replica_loses_its_requests_in_flight_with_an_error_and_is_replaced(
    handle: Any, expected: Pipeline
) -> None:
    victim = worker_pids(REPLICA)[0]
    responses = [handle.generate.remote(slow(seed)) for seed in range(QUEUE)]
    os.kill(victim, signal.SIGKILL)
    outcomes = [outcome(response) for response in responses]
    assert outcomes.count("ActorDiedError") <= 1
    assert set(outcomes) <= {"done", "ActorDiedError"}
    assert same(handle.generate.remote(slow(1)).result(timeout_s=120), expected.generate(slow(1)))
    until = time.monotonic() + 200
    while len(worker_pids(REPLICA)) < REPLICAS:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert victim not in worker_pids(REPLICA)


def outcome(response: Any) -> str:
    try:
        response.result(timeout_s=120)
    except (ActorDiedError, BackPressureError) as error:
        return type(error).__name__
    return "done"


def test_a_caller_that_goes_away_frees_the_lane(bundle: Path) -> None:
    replica = Replica(ReplicaSettings(bundle=bundle))

    async def leave() -> Result:
        events = replica.stream(slow(1))
        await anext(events)
        await events.aclose()
        cancelled = asyncio.create_task(replica.generate(slow(2)))
        await asyncio.sleep(0.02)
        cancelled.cancel()
        return await replica.generate(slow(3))

    result = asyncio.run(leave())
    assert same(result, replica._pipeline.generate(slow(3)))


def test_a_replica_whose_device_failed_says_so_to_ray(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(ReplicaSettings(bundle=bundle))
    asyncio.run(replica.check_health())

    def fail(*_: object) -> None:
        raise DeviceFailed("the GPU fell off the bus")

    monkeypatch.setattr(replica._pipeline._conditions, "encode", fail)
    with pytest.raises(EngineError, match="fell off"):
        asyncio.run(replica.check_health())


def test_settings_of_a_file_are_checked_and_reach_ray() -> None:
    app = build_app(ReplicaSettings(bundle=Path("b"), lanes=3, queue=5, gpus=0.5, threads=2, max_replicas=8))
    deployment = app._bound_deployment
    assert (deployment.max_ongoing_requests, deployment.max_queued_requests) == (3, 5)
    assert deployment.ray_actor_options == {"num_cpus": 2, "num_gpus": 0.5}
    scaling = deployment._deployment_config.autoscaling_config
    assert (scaling.min_replicas, scaling.max_replicas, scaling.target_ongoing_requests) == (1, 8, 3)
    with pytest.raises(ValidationError, match="lane"):
        ReplicaSettings.model_validate({"bundle": "b", "lane": 3})
