"""`POST /v1/images/generations`: what is answered, and what is refused by name."""

from __future__ import annotations

import base64
import io
from typing import Any

import httpx
import numpy as np
import pytest
from mulo_runtime import AutoRegressive, ClassId, MuloSD, Prompt, Request, ZipAR
from PIL import Image
from pipelines import MakePipeline
from serving import GENERATIONS, PROMPT, Service, serving


def pixels(encoded: str) -> Any:
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture)


def test_image_j_of_n_is_the_librarys_with_the_seed_plus_j(service: Service) -> None:
    answer = service.post({"seed": 7, "n": 3}).json()
    assert [one["mulo"]["seed"] for one in answer["data"]] == [7, 8, 9]
    for one in answer["data"]:
        expected = service.pipeline.generate(Request(Prompt(PROMPT), seed=one["mulo"]["seed"]))
        assert (pixels(one["b64_json"]) == expected.image).all()


def test_the_answer_is_openais_with_the_figures_beside(service: Service) -> None:
    answer = service.post({"seed": 1, "size": "32x32", "model": "mulo", "response_format": "b64_json"}).json()
    assert answer.keys() == {"created", "size", "background", "output_format", "data", "usage"}
    assert answer["size"] == "32x32"
    assert answer["usage"]["total_tokens"] == len(PROMPT.split()) + 64
    figures = answer["data"][0]["mulo"]
    assert figures["method"] == "mulo-sd"
    assert 0 < figures["accepted_share"] <= 1
    assert [len(row) for row in figures["accept_map"]] == [8] * 8
    assert figures["passes"]["target"] > 0
    assert sum(figures["phases"].values()) < figures["seconds"]


def test_without_a_seed_images_differ_and_tell_theirs(service: Service) -> None:
    data = service.post({"n": 2}).json()["data"]
    again = service.post({"seed": data[1]["mulo"]["seed"]}).json()["data"]
    assert data[0]["mulo"]["seed"] != data[1]["mulo"]["seed"]
    assert again[0]["b64_json"] == data[1]["b64_json"]


@pytest.mark.parametrize(
    ("fields", "method"),
    [
        ({"method": "ar"}, AutoRegressive()),
        ({"method": "zipar", "settings": {"window": 2}}, ZipAR(2)),
        ({"settings": {"tau": 0.3, "radius": 2, "window": 2}}, MuloSD(tau=0.3, pool_k=4, radius=2, window=2)),
        ({"settings": {"tau": 0.3}, "floor": 1.0}, ZipAR()),
    ],
    ids=str,
)
def test_the_method_may_be_chosen_per_request(service: Service, fields: dict[str, Any], method: Any) -> None:
    before = service.counted("mulo_fallbacks_total")
    one = service.post({"seed": 5, **fields}).json()["data"][0]
    expected = service.pipeline.generate(Request(Prompt(PROMPT), seed=5, method=method))
    assert (pixels(one["b64_json"]) == expected.image).all()
    assert service.counted("mulo_fallbacks_total") - before == ("floor" in fields)


@pytest.mark.parametrize(
    ("fields", "code", "named"),
    [
        ({"style": "vivid"}, "unsupported_field", "'style'"),
        ({"moderation": "low"}, "unsupported_field", "'moderation'"),
        ({"quality": "hd"}, "invalid_field", "'quality'"),
        ({"response_format": "url"}, "invalid_field", "'response_format'"),
        ({"n": 0}, "invalid_field", "'n'"),
        ({"n": "2"}, "invalid_field", "'n'"),
        ({"n": 5}, "request", "n = 5"),
        ({"n": 2, "stream": True}, "request", "n = 2"),
        ({"seed": -1}, "invalid_field", "'seed'"),
        ({"seed": 2**64 - 1, "n": 2}, "request", "seed"),
        ({"size": "1024x1024"}, "request", "'32x32'"),
        ({"model": "dall-e-3"}, "request", "dall-e-3"),
        ({"method": "ar", "settings": {"tau": 0.1}}, "request", "'tau'"),
        ({"settings": {"tau": -1}}, "request", "'tau'"),
        ({"settings": {"tau": "high"}}, "request", "'tau'"),
        ({"settings": {"pool_k": 17}}, "request", "pool_k"),
        ({"sampling": {"top_k": 1.5}}, "invalid_field", "'sampling.top_k'"),
        ({"sampling": {"heat": 1}}, "unsupported_field", "'sampling.heat'"),
        ({"deadline": 0}, "invalid_field", "'deadline'"),
        ({"prompt": "a mauve circle"}, "prompt", "mauve"),
        ({"prompt": ""}, "invalid_field", "'prompt'"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused_by_name(
    service: Service, fields: dict[str, Any], code: str, named: str
) -> None:
    answer = service.post(fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (400, code, "invalid_request_error")
    assert named in error["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"prompt": NaN}', b"\xff\xfe", b"[" * 60_000], ids=repr)
def test_a_body_that_is_no_request_is_refused(service: Service, body: bytes) -> None:
    answer = httpx.post(service.url + GENERATIONS, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_class_is_asked_for_by_its_number(open_pipeline: MakePipeline) -> None:
    with serving(open_pipeline(text=False)) as service:
        one = service.post({"prompt": "3", "seed": 2}).json()["data"][0]
        assert (pixels(one["b64_json"]) == service.pipeline.generate(Request(ClassId(3), seed=2)).image).all()
        for prompt in ("5", "-1", "a cat", "٣"):
            assert service.post({"prompt": prompt}).json()["error"]["code"] == "request"


def test_other_paths_and_methods_are_answered_in_the_same_form(service: Service) -> None:
    assert service.get("/nowhere").json()["error"]["code"] == "http"
    assert service.get(GENERATIONS).status_code == 405


def test_the_bundle_tells_what_it_makes(service: Service) -> None:
    card = service.get("/v1/bundle").json()
    assert (card["size"], card["rows"], card["draft_rows"], card["kind"]) == ("32x32", 8, 4, "text")
    assert set(PROMPT.split()) <= set(card["words"])
    assert card["method"]["pool_k"] == 4
