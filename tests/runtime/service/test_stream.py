"""Images that are streamed: OpenAI's events, the draft first, then verification and rows, the image last."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from mulo_engines.errors import EngineError
from mulo_runtime import Pipeline
from pipelines import Faults
from serving import GENERATIONS, PROMPT, Service, serving


def events(service: Service, **fields: Any) -> list[dict[str, Any]]:
    body = {"prompt": PROMPT, "seed": 4, "stream": True, **fields}
    with httpx.stream("POST", service.url + GENERATIONS, json=body, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        blocks = answer.read().decode().strip().split("\n\n")
    names, data = zip(*(block.split("\n", 1) for block in blocks), strict=True)
    parsed = [json.loads(line.removeprefix("data: ")) for line in data]
    assert [name.removeprefix("event: ") for name in names] == [event.get("type", "error") for event in parsed]
    return parsed


def stages(shown: list[dict[str, Any]]) -> list[str]:
    return [event["mulo"]["stage"] for event in shown[:-1]]


def test_the_draft_comes_first_then_verification_then_rows_then_the_image(service: Service) -> None:
    shown = events(service, partial_images=100)
    assert stages(shown) == ["draft", *["verified", "rows"] * 4]
    assert [event["partial_image_index"] for event in shown[:-1]] == list(range(9))
    assert shown[-1]["type"] == "image_generation.completed"
    assert shown[-1]["b64_json"] == service.post({"seed": 4}).json()["data"][0]["b64_json"]
    assert shown[-2]["b64_json"] == shown[-1]["b64_json"]


def test_islands_are_told_before_they_are_resampled(service: Service) -> None:
    shown = events(service, partial_images=100, settings={"tau": 0.3})
    verified = [event["mulo"] for event in shown[:-1] if event["mulo"]["stage"] == "verified"]
    assert verified[0]["rows"] == 2
    assert set("".join(verified[0]["accept_map"][2:])) == {"0"}
    assert "2" in "".join(verified[-1]["accept_map"])
    assert verified[-1]["accept_map"] == shown[-1]["mulo"]["accept_map"]


@pytest.mark.parametrize(("partial_images", "expected"), [(0, []), (1, ["draft"]), (2, ["draft", "verified"])])
def test_no_more_partial_images_than_asked_for(service: Service, partial_images: int, expected: list[str]) -> None:
    whole = {"settings": {"rows_per_round": 0}}
    assert stages(events(service, partial_images=partial_images, **whole)) == expected


def test_plain_decoding_shows_its_rows(service: Service) -> None:
    shown = events(service, method="ar", partial_images=3)
    assert [event["mulo"]["rows"] for event in shown[:-1]] == [2, 4, 6]


def test_an_error_before_the_first_event_has_its_status(service: Service) -> None:
    answer = service.post({"stream": True, "prompt": "a mauve circle"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "prompt")
    late = service.post({"stream": True, "deadline": 1e-9})
    assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline")


def test_an_error_after_the_first_event_is_an_event(faulty_pipeline: tuple[Pipeline, Faults]) -> None:
    pipeline, faults = faulty_pipeline
    with serving(pipeline) as service:
        whole = len(events(service, partial_images=100))
        faults.arm(60, EngineError("injected"))
        shown = events(service, partial_images=100)
        assert len(shown) < whole
        assert shown[-1]["error"]["code"] == "engine"
        faults.arm(None, EngineError("none"))
        assert len(events(service, partial_images=100)) == whole
