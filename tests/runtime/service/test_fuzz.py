"""Whatever a client sends, it gets an image or a documented error, and the service lives on."""

from __future__ import annotations

import json
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import GENERATIONS, PROMPT, Service

DOCUMENTED = {200, 400, 413, 429, 504}
FIELDS = ("prompt", "n", "size", "seed", "stream", "partial_images", "method", "settings", "sampling", "floor")
SWITCHES = ("tau", "radius", "window", "pool_k", "rows_per_round", "draft", "refresh", "draft_window", "look_ahead")

UNPROMISED: list[CheckFunction] = [positive_data_acceptance]
"""A body may fit the schema and yet ask for a word or a size that the bundle does not know."""

numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 1e308, 1e-308, 0.5])
words = st.text(max_size=20) | st.sampled_from(["ar", "zipar", "mulo-sd", "rows"])
scalars = st.none() | st.booleans() | numbers | words
nested = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
plausible = st.fixed_dictionaries(
    {"prompt": st.just(PROMPT)},
    optional={
        "seed": st.integers(0, 2**64 - 1),
        "method": st.sampled_from(["ar", "zipar", "mulo-sd"]),
        "settings": st.dictionaries(st.sampled_from(SWITCHES), scalars, max_size=4),
        "sampling": st.dictionaries(
            st.sampled_from(["guidance_scale", "temperature", "top_k", "top_p"]), numbers, max_size=3
        ),
        "floor": numbers,
        "deadline": numbers,
        "priority": numbers,
        "stream": scalars,
        "partial_images": numbers,
    },
)
wild = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=10), nested, max_size=6)


def send(service: Service, content: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(service.url + GENERATIONS, content=content, headers=headers, timeout=120)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(plausible | wild)
def test_any_object_is_answered_by_an_image_or_a_documented_error(service: Service, fields: dict[str, Any]) -> None:
    answer = send(service, json.dumps(fields).encode())
    assert answer.status_code in DOCUMENTED, answer.text
    if answer.status_code != 200:
        assert answer.json()["error"]["message"]


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_refused(service: Service, content: bytes) -> None:
    assert send(service, content).status_code == 400


def test_the_service_is_as_its_own_openapi_says(service: Service) -> None:
    described = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert {operation.path for operation in operations} >= {GENERATIONS, "/v1/bundle", "/livez", "/readyz", "/metrics"}
    for operation in operations:

        @settings(max_examples=40, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def is_as_described(case: Any) -> None:
            case.call_and_validate(excluded_checks=UNPROMISED, timeout=120)

        is_as_described()


def test_after_all_that_the_service_is_well(service: Service) -> None:
    service.wait_idle()
    assert service.get("/livez").status_code == 200
    assert service.post({"seed": 1}).status_code == 200
