"""The model for Triton, run as Triton runs it: from its repository, with its configuration, through senders."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import CLASSES
from click.testing import CliRunner
from conftest import MakeBundle
from google.protobuf import json_format, text_format
from mulo_engines.errors import DeviceFailed
from mulo_runtime import ClassId, Pipeline, Prompt, Request
from mulo_tools.cli import main
from triton_python_backend_utils import (
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    Tensor,
    TritonError,
)
from tritonclient.grpc import model_config_pb2

PROMPT = "red circle and blue square"


def model_config(repository: Path) -> dict[str, Any]:
    """config.pbtxt as Triton reads it."""
    text = (repository / "mulo" / "config.pbtxt").read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    fields: dict[str, Any] = json_format.MessageToDict(config, preserving_proto_field_name=True)
    return fields


@contextmanager
def served(bundle: Path, repository: Path, *options: object) -> Iterator[Any]:
    """The model that the repository of `bundle` holds, initialised."""
    arguments = ["triton-repository", bundle, "--out", repository, "--threads", 1, *options]
    assert CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False).exit_code == 0
    spec = importlib.util.spec_from_file_location("1.model", repository / "mulo" / "1" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    model.initialize({"model_config": json.dumps(model_config(repository)), "model_instance_device_id": "0"})
    try:
        yield model
    finally:
        model.finalize()


@pytest.fixture
def model(shared_bundle: MakeBundle, tmp_path: Path) -> Iterator[Any]:
    with served(shared_bundle(), tmp_path, "--queue", 1) as model:
        yield model


def prompt_request(text: str = PROMPT, timeout: int = 0, **inputs: Any) -> InferenceRequest:
    tensors = [Tensor("prompt", np.array([text.encode()], object))]
    return InferenceRequest([*tensors, *(Tensor(name, value) for name, value in inputs.items())], timeout)


def ask(model: Any, request: InferenceRequest) -> InferenceResponseSender:
    assert model.execute([request]) is None
    for tensor in request.inputs():
        tensor.free()
    return request.get_response_sender()


def answers(sender: InferenceResponseSender) -> list[InferenceResponse]:
    return list(iter(lambda: sender.arrived.get(timeout=60), None))


def outputs(response: InferenceResponse) -> dict[str, np.ndarray]:
    assert not response.has_error(), response.error().message()  # type: ignore[union-attr]
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


def error(sender: InferenceResponseSender) -> TritonError:
    (response,) = answers(sender)
    found = response.error()
    assert found is not None
    return found


def seed(value: int) -> np.ndarray:
    return np.array([value], np.uint64)


def expected(bundle: Path, request: Request) -> np.ndarray:
    with Pipeline.open(bundle, threads=1) as pipeline:
        return pipeline.generate(request).image


def test_a_prompt_gets_the_image_that_the_pipeline_makes(model: Any, shared_bundle: MakeBundle) -> None:
    (response,) = answers(ask(model, prompt_request(seed=seed(2**64 - 1))))
    found = outputs(response)
    assert (found["stage"].tolist(), found["seed"].tolist()) == (["done"], [2**64 - 1])
    np.testing.assert_array_equal(found["image"], expected(shared_bundle(), Request(Prompt(PROMPT), seed=2**64 - 1)))


def test_previews_come_where_they_are_asked_for_the_draft_first_and_the_image_last(model: Any) -> None:
    found = [outputs(one) for one in answers(ask(model, prompt_request(seed=seed(3), previews=np.array([True]))))]
    stages = [one["stage"].item() for one in found]
    assert stages[0] == "draft"
    assert (set(stages[1:-1]), stages[-1]) == ({"verified", "rows"}, "done")
    assert len(stages) > 2
    np.testing.assert_array_equal(found[-2]["image"], found[-1]["image"])
    (alone,) = answers(ask(model, prompt_request(seed=seed(3), previews=np.array([False]))))
    np.testing.assert_array_equal(outputs(alone)["image"], found[-1]["image"])


def test_a_seed_that_is_not_given_is_drawn_and_told(model: Any) -> None:
    first, second = (outputs(answers(ask(model, prompt_request()))[0]) for _ in range(2))
    assert first["seed"] != second["seed"]
    again = outputs(answers(ask(model, prompt_request(seed=first["seed"])))[0])
    np.testing.assert_array_equal(again["image"], first["image"])


def test_what_is_answered_is_what_the_configuration_declares(model: Any, tmp_path: Path) -> None:
    config = model_config(tmp_path)
    assert config["backend"] == "python"
    assert config["model_transaction_policy"] == {"decoupled": True}
    assert {one["name"] for one in config["input"]} == {"prompt", "seed", "previews"}
    found = outputs(answers(ask(model, prompt_request()))[0])
    types = {"uint8": "TYPE_UINT8", "object": "TYPE_STRING", "uint64": "TYPE_UINT64"}
    assert {name: types[str(value.dtype)] for name, value in found.items()} == {
        one["name"]: one["data_type"] for one in config["output"]
    }


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (prompt_request("a mauve circle"), TritonError.INVALID_ARG, "mauve"),
        (prompt_request(timeout=1), TritonError.UNAVAILABLE, "deadline"),
        (InferenceRequest([Tensor("prompt", np.array([b"\xff"], object))]), TritonError.INTERNAL, "utf-8"),
    ],
    ids=["unknown word", "timeout", "not text"],
)
def test_an_error_is_an_answer_with_a_code(model: Any, request_: InferenceRequest, code: int, message: str) -> None:
    found = error(ask(model, request_))
    assert found.code() == code
    assert message in found.message()
    assert model.is_ready()


def test_a_full_queue_refuses_at_once_and_who_cancels_frees_the_lane(model: Any) -> None:
    with closing(model._pipeline.stream(Request(Prompt(PROMPT)))) as stream:
        next(stream)
        waiting = ask(model, prompt_request())
        while not model._pipeline._pool._waiting:
            pass
        assert error(ask(model, prompt_request())).code() == TritonError.UNAVAILABLE
        waiting.cancelled.set()
    assert error(waiting).code() == TritonError.CANCELLED
    assert len(answers(ask(model, prompt_request()))) == 1


def test_a_failed_device_turns_the_model_unready(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DeviceFailed("the GPU fell off the bus")

    monkeypatch.setattr(model._pipeline, "stream", fail)
    assert error(ask(model, prompt_request())).code() == TritonError.INTERNAL
    assert not model.is_ready()


def test_a_model_that_is_unloaded_finishes_what_it_accepted(shared_bundle: MakeBundle, tmp_path: Path) -> None:
    with served(shared_bundle(), tmp_path) as model:
        senders = [ask(model, prompt_request(seed=seed(one))) for one in range(4)]
    assert all(len(answers(sender)) == 1 for sender in senders)


def test_a_class_conditional_bundle_takes_classes(shared_bundle: MakeBundle, tmp_path: Path) -> None:
    bundle = shared_bundle(text=False)
    with served(bundle, tmp_path) as model:
        request = InferenceRequest([Tensor("class_id", np.array([CLASSES - 1], np.int64)), Tensor("seed", seed(1))])
        found = outputs(answers(ask(model, request))[0])
    np.testing.assert_array_equal(found["image"], expected(bundle, Request(ClassId(CLASSES - 1), seed=1)))


def test_on_a_gpu_the_instance_is_on_the_one_that_is_named(shared_bundle: MakeBundle, tmp_path: Path) -> None:
    options = ["--backend", "tensorrt", "--device", "1", "--engines", str(tmp_path), "--lanes", "3"]
    command = ["triton-repository", str(shared_bundle()), "--out", str(tmp_path), *options]
    assert CliRunner().invoke(main, command, catch_exceptions=False).exit_code == 0
    config = model_config(tmp_path)
    assert config["instance_group"] == [{"count": 1, "kind": "KIND_GPU", "gpus": [1]}]
    given = {name: value["string_value"] for name, value in config["parameters"].items()}
    assert (given["backend"], given["lanes"], given["engines"]) == ("tensorrt", "3", str(tmp_path))


def test_a_name_that_is_a_path_is_refused(shared_bundle: MakeBundle, tmp_path: Path) -> None:
    command = ["triton-repository", str(shared_bundle()), "--out", str(tmp_path / "out"), "--name", "../mulo"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "no name of a folder" in result.stderr
    assert not list(tmp_path.iterdir())
