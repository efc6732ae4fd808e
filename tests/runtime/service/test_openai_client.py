"""OpenAI's own Python client against the service, streaming included."""

from __future__ import annotations

import base64

import openai
import pytest
from mulo_runtime import Pipeline
from mulo_runtime.service.limits import Limits
from pipelines import MakePipeline
from serving import PROMPT, Service, serving


def client(service: Service, token: str = "unused") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key=token, max_retries=0, timeout=60)


def test_images_are_generated(service: Service) -> None:
    with client(service) as api:
        images = api.images.generate(prompt=PROMPT, n=2, size="auto", extra_body={"seed": 3})
    assert images.data is not None
    assert images.usage is not None
    assert len(images.data) == 2
    assert base64.b64decode(images.data[0].b64_json or "").startswith(b"\x89PNG")
    assert images.usage.output_tokens == 128


def test_a_stream_is_read_event_by_event(service: Service) -> None:
    with (
        client(service) as api,
        api.images.generate(
            prompt=PROMPT, model="mulo", stream=True, partial_images=3, extra_body={"seed": 3}
        ) as stream,
    ):
        shown = list(stream)
    assert [event.type for event in shown] == ["image_generation.partial_image"] * 3 + ["image_generation.completed"]
    assert [event.partial_image_index for event in shown[:-1]] == [0, 1, 2]  # type: ignore[union-attr]
    with client(service) as api:
        whole = api.images.generate(prompt=PROMPT, extra_body={"seed": 3}).data
    assert whole is not None
    assert shown[-1].b64_json == whole[0].b64_json


def test_refusals_are_the_clients_own_errors(service: Service) -> None:
    with client(service) as api:
        with pytest.raises(openai.BadRequestError, match="'style' is not supported") as refused:
            api.images.generate(prompt=PROMPT, style="vivid")
        assert refused.value.param == "style"
        with pytest.raises(openai.BadRequestError, match="mauve"):
            api.images.generate(prompt="a mauve circle")


def test_the_token_is_the_clients_api_key(open_pipeline: MakePipeline) -> None:
    with serving(open_pipeline(), token="a-secret") as service:
        with client(service, "another") as api, pytest.raises(openai.AuthenticationError):
            api.images.generate(prompt=PROMPT)
        with client(service, "a-secret") as api:
            assert api.images.generate(prompt=PROMPT).data


def test_a_full_queue_is_a_rate_limit_that_says_when_to_come_back(open_pipeline: MakePipeline) -> None:
    pipeline: Pipeline = open_pipeline(lanes=1, queue=0)
    with serving(pipeline, Limits()) as service, pipeline._pool.lease(pipeline._pool.enter()), client(service) as api:
        with pytest.raises(openai.RateLimitError) as refused:
            api.images.generate(prompt=PROMPT)
        assert int(refused.value.response.headers["retry-after"]) >= 1
