"""Clients that go away, dawdle, send too much or have no token; lanes that fail; queues that are full."""

from __future__ import annotations

import json
import logging
import math
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from bundles import broken_decoder_bundle
from mulo_engines.errors import EngineError
from mulo_runtime import Pipeline
from mulo_runtime.service.limits import Limits
from pipelines import Faults, MakePipeline
from serving import GENERATIONS, PROMPT, Service, eventually, serving

SLOW = {"prompt": PROMPT, "seed": 1, "method": "ar"}


def raw_request(service: Service, body: bytes, length: int | None = None) -> socket.socket:
    """A connection that has sent a request, of which `length` is the announced size."""
    port = int(service.url.rsplit(":", 1)[1])
    connection = socket.create_connection(("127.0.0.1", port))
    head = f"POST {GENERATIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    connection.sendall(f"{head}content-length: {len(body) if length is None else length}\r\n\r\n".encode() + body)
    return connection


def as_body(**fields: Any) -> bytes:
    return json.dumps({**SLOW, **fields}).encode()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_lane_within_one_pass(
    faulty_pipeline: tuple[Pipeline, Faults], stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, faults = faulty_pipeline
    with serving(pipeline) as service, caplog.at_level(logging.INFO, "mulo_runtime.service.access"):
        faults.arm(None, RuntimeError())
        faults.on_call = lambda _: time.sleep(0.01)
        connection = raw_request(service, as_body(stream=stream, partial_images=100 if stream else 0))
        eventually(lambda: faults.calls > 10)
        connection.close()
        eventually(lambda: pipeline.load().free == 1)
        # A whole image takes 128 runs of the target and its sampler.
        assert faults.calls < 60
        faults.on_call = None
        eventually(lambda: any(record.fields["status"] == 499 for record in caplog.records))  # type: ignore[attr-defined]
        assert service.post(SLOW).status_code == 200


def test_a_client_that_goes_away_while_it_waits_gives_its_place_back(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=1, queue=1)
    with serving(pipeline) as service:
        with pipeline._pool.lease(pipeline._pool.enter()):
            connection = raw_request(service, as_body())
            eventually(lambda: pipeline.load().waiting == 1)
            connection.close()
            eventually(lambda: pipeline.load().waiting == 0)
        assert service.post(SLOW).status_code == 200


def test_a_reader_that_does_not_read_holds_no_lane_and_is_let_go(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    with serving(pipeline, Limits(send_seconds=0.2)) as service:
        idle = [raw_request(service, as_body(stream=True, partial_images=100, seed=seed)) for seed in range(3)]
        service.wait_idle()
        assert service.post(SLOW).status_code == 200
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused_unread(service: Service, chunked: bool) -> None:
    body = json.dumps({"prompt": "a" * 70_000}).encode()
    content = iter([body[:40_000], body[40_000:]]) if chunked else body
    answer = httpx.post(service.url + GENERATIONS, content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_a_body_that_does_not_arrive_is_given_up(open_pipeline: MakePipeline) -> None:
    with serving(open_pipeline(), Limits(body_seconds=0.1)) as service:
        connection = raw_request(service, b'{"prompt": ', length=500)
        assert b" 408 " in connection.recv(4096)
        connection.close()


def test_a_deadline_is_504_and_never_longer_than_the_services(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=1, queue=1)
    with serving(pipeline, Limits(deadline=0.2)) as service, pipeline._pool.lease(pipeline._pool.enter()):
        for fields in ({"deadline": 0.05}, {"deadline": 1e9}, {}):
            answer = service.post({**SLOW, **fields})
            assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline")


def test_when_one_of_n_is_refused_the_others_are_given_up(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=1, queue=1)
    with serving(pipeline) as service:
        answer = service.post({"n": 4})
        assert answer.status_code == 429
        service.wait_idle()


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer", "a-secret", "Bearer a-secret2", "é"])
def test_without_the_token_nothing_is_made(open_pipeline: MakePipeline, authorization: str | None) -> None:
    with serving(open_pipeline(), token="a-secret") as service:
        headers = {} if authorization is None else {"authorization": authorization.encode()}
        answer = service.post(SLOW, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert service.get("/v1/bundle", headers=headers).status_code == 401
        assert service.get("/readyz", headers=headers).status_code == 200
        assert service.post(SLOW, headers={"authorization": "Bearer a-secret"}).status_code == 200


def test_a_failed_device_turns_livez_red_until_it_works_again(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    with serving(pipeline) as service:
        assert service.get("/livez").status_code == 200
        broken = EngineError("the device fell off the bus")
        faults.on_call = lambda _: (_ for _ in ()).throw(broken)
        answer = service.post(SLOW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine")
        for path in ("/livez", "/readyz"):
            answer = service.get(path)
            assert (answer.status_code, answer.json()["fault"]) == (503, "the device fell off the bus")
        faults.on_call = None
        assert service.get("/livez").status_code == 200


def test_a_lane_without_a_pass_turns_livez_red(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    with serving(pipeline, Limits(silence_seconds=0.05)) as service, pipeline._pool.lease(pipeline._pool.enter()):
        eventually(lambda: service.get("/livez").status_code == 503)
        assert "without a pass" in service.get("/livez").json()["fault"]


def test_nothing_is_served_before_every_branch_was_walked(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    go = threading.Event()

    def hold(_: int) -> None:
        go.wait()

    faults.on_call = hold
    with serving(pipeline, warm=False) as service:
        answer = service.post(SLOW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
        assert "retry-after" in answer.headers
        assert service.get("/readyz").json()["state"] == "warming"
        assert service.get("/livez").status_code == 200
        go.set()
        eventually(lambda: service.get("/readyz").status_code == 200)


def test_an_unforeseen_error_is_answered_in_the_same_form(
    faulty_pipeline: tuple[Pipeline, Faults], caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, faults = faulty_pipeline
    with serving(pipeline) as service:
        faults.arm(3, ZeroDivisionError("injected"))
        answer = service.post(SLOW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "unforeseen")
        faults.arm(None, RuntimeError())
        assert service.post(SLOW).status_code == 200
    assert "injected" in caplog.text


def test_pixels_that_are_not_finite_are_500_and_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A warm-up that met them would refuse every request from then on.
    monkeypatch.setattr("mulo_runtime.pipeline.warm_lanes", lambda *_: None)
    with Pipeline.open(broken_decoder_bundle(tmp_path, math.nan), threads=1) as pipeline, serving(pipeline) as service:
        answer = service.post(SLOW)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine")
        assert "decoder: the pixels are not finite" in answer.json()["error"]["message"]
        streamed = service.post({**SLOW, "stream": True, "partial_images": 3})
        assert (streamed.status_code, streamed.json()["error"]["code"]) == (500, "engine")
        service.wait_idle()


def test_a_decoder_that_the_warm_up_finds_broken_serves_nothing(tmp_path: Path) -> None:
    with Pipeline.open(broken_decoder_bundle(tmp_path, math.nan), threads=1) as pipeline, serving(pipeline) as service:
        assert service.post(SLOW).status_code == 503
        assert service.get("/readyz").json()["state"] == "failed"


def test_a_warm_up_that_fails_is_told_by_both_probes(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    faults.arm(100, EngineError("injected"))
    with serving(pipeline) as service:
        assert service.get("/readyz").json()["state"] == "failed"
        assert service.get("/livez").status_code == 503
        assert service.post(SLOW).status_code == 503
