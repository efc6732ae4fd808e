"""The deployment on a real Ray Serve with two replicas: images, streams, errors, back-pressure, killed replicas."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import MakeBundle
from http_load import Load, ask
from mulo_engines.errors import DeviceFailed, EngineError, PromptError
from mulo_runtime import AutoRegressive, Done, DraftPreview, Pipeline, Prompt, Request, Result
from mulo_runtime.scale_out.ray_serve import Replica, ReplicaSettings, build_app
from pydantic import ValidationError
from ray import serve
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import BackPressureError
from ray_clusters import free_port, ray_cluster, worker_pids
from serving import GENERATIONS, eventually

pytestmark = pytest.mark.timeout(600)

PROMPT = Prompt("red circle and blue square")
QUEUE = 4
REPLICAS = 2
REPLICA = "ray::ServeReplica:mulo-test:"
PORT = free_port()
URL = f"http://127.0.0.1:{PORT}{GENERATIONS}"
SLOW = {"prompt": PROMPT.text, "method": "ar"}
LANES, SEEDS, CLIENTS = 1, 4, 4
KILLS = 3
"""A replica that is killed just between two requests loses none: then another is killed."""
DEADLINE = 60.0
"""Seconds within which every client must know what became of its request."""


@pytest.fixture(scope="module")
def bundle(shared_bundle: MakeBundle) -> Path:
    return shared_bundle(ratio=4)


@pytest.fixture(scope="module")
def handle(bundle: Path) -> Iterator[Any]:
    settings = ReplicaSettings(bundle=bundle, lanes=LANES, queue=QUEUE, min_replicas=REPLICAS, max_replicas=REPLICAS)
    with ray_cluster():
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        yield serve.run(build_app(settings), name="mulo-test")
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
    kill_and_await_another(victim)
    outcomes = [outcome(response) for response in responses]
    assert outcomes.count("ActorDiedError") <= 1
    assert set(outcomes) <= {"done", "ActorDiedError"}
    assert same(handle.generate.remote(slow(1)).result(timeout_s=120), expected.generate(slow(1)))


def test_over_http_a_replica_answers_as_the_service_does(handle: Any, expected: Pipeline) -> None:
    for stream in (False, True):
        answer = ask(URL, {**SLOW, "seed": 5, "stream": stream}, DEADLINE)
        assert answer.image is not None, answer.error
        assert (answer.image == expected.generate(slow(5)).image).all()
    refused = httpx.post(URL, json={"prompt": "a mauve circle"}, timeout=DEADLINE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "prompt")
    several = httpx.post(URL, json={**SLOW, "seed": 5, "n": 4}, timeout=DEADLINE)
    assert len(several.json()["data"]) == 4


def test_a_replica_killed_under_load_over_http_loses_at_most_what_its_lanes_hold(
    handle: Any, expected: Pipeline
) -> None:
    eventually(lambda: running_replicas() == REPLICAS, DEADLINE)
    first, load = set(worker_pids(REPLICA)), Load()
    images = [expected.generate(slow(seed)).image for seed in range(SEEDS)]
    with load.running(URL, SLOW, SEEDS, CLIENTS, DEADLINE):
        eventually(lambda: len(load.answers) >= 2 * CLIENTS, DEADLINE)
        assert not load.lost
        for _ in range(KILLS):
            kill_and_await_another(worker_pids(REPLICA)[0])
            if load.lost:
                break
        answered = len(load.answers)
        eventually(lambda: len(load.answers) >= answered + 2 * CLIENTS, DEADLINE)
    assert 1 <= len(load.lost) <= LANES, "none of the killed replicas had a request, or one lost more than it had"
    assert all(answer.seconds < DEADLINE for answer in load.answers)
    assert all((answer.image == images[answer.seed]).all() for answer in load.answers if answer.image is not None)

    # Once all of the first are gone, only a new replica can answer.
    for survivor in first & set(worker_pids(REPLICA)):
        os.kill(survivor, signal.SIGKILL)
    eventually(lambda: (ask(URL, {**SLOW, "seed": 1}, DEADLINE).image == images[1]).all(), DEADLINE)


def kill_and_await_another(victim: int) -> None:
    """Kill a replica, and wait until Ray has another in its place."""
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: victim not in worker_pids(REPLICA) and len(worker_pids(REPLICA)) == REPLICAS, 200)
    eventually(lambda: running_replicas() == REPLICAS, 200)


def running_replicas() -> int:
    (deployment,) = serve.status().applications["mulo-test"].deployments.values()
    return deployment.replica_states.get("RUNNING", 0)


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
