"""ONNX Runtime's CUDA provider: refused where it is not, and bound to addresses of a device where it is."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import device_tasks
import numpy as np
import onnxruntime as ort
import pytest
from bundles import tiny_bundle
from golden_models import load_graph
from mulo_engines.deferred import DeferredStream
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import DeviceFailed, EngineError, EngineUnavailable, OutOfMemory
from mulo_engines.onnxruntime import cuda_engine
from mulo_engines.onnxruntime.cuda_engine import OnnxRuntimeCudaEngine, require_provider
from mulo_export.graphs.feed import feed_graph
from mulo_runtime import AutoRegressive, MuloSD, Pipeline
from pipelines import request
from session_double import INFERENCE_SESSION, Binding, Session
from stub_driver import OnStubDriver

SHAPES = {
    "token_log": (1, 6),
    "new_tokens": (1, 2),
    "write_positions": (1, 2),
    "read_positions": (1, 3),
    "probability": (1, 2),
    "witness": (1,),
    "token_log_out": (1, 6),
    "token_ids": (2, 3),
    "witness_out": (1,),
}


def test_the_provider_draws_what_the_host_draws(tmp_path: Path, on_stub_driver: OnStubDriver) -> None:
    bundle, methods = tiny_bundle(tmp_path), [AutoRegressive(), MuloSD()]
    found = on_stub_driver(device_tasks.draw_by_provider, bundle, methods)
    with Pipeline.open(bundle, threads=1, methods=methods, lanes=2) as host:
        for method, tokens in zip(methods, found, strict=True):
            assert np.array_equal(tokens, host.generate(request(0, method)).tokens)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    load_graph(feed_graph(guidance=True), tmp_path / "feed.onnx").close()
    return tmp_path / "feed.onnx"


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch, providers: list[str]) -> tuple[OnnxRuntimeCudaEngine, Session]:
    sessions: list[Session] = []

    def make(given: str, options: Any, *, providers: Any) -> Session:
        assert providers[0] == ("CUDAExecutionProvider", {"device_id": "1", "user_compute_stream": "77"})
        sessions.append(Session(Path(given), held))
        return sessions[-1]

    held = providers
    monkeypatch.setattr(cuda_engine.ort, "InferenceSession", make)
    return OnnxRuntimeCudaEngine.load(path, name="feed", device=1, stream=77), sessions[0]


def test_a_build_for_the_cpu_is_refused_with_what_to_install() -> None:
    with pytest.raises(EngineUnavailable, match=r"(?s)built for the CPU.*CPUExecutionProvider.*mulo\[gpu\]"):
        require_provider()


def test_a_provider_whose_libraries_are_missing_is_refused_with_the_loaders_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_engine.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    with pytest.raises(EngineUnavailable, match=r"(?s)in silence.*libonnxruntime_providers_cuda.so: cannot open"):
        require_provider()


def test_a_session_that_fell_back_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_engine.ort, "InferenceSession", lambda *_, **__: INFERENCE_SESSION(path))
    with pytest.raises(EngineUnavailable, match=r"(?s)in silence.*found: +CPUExecutionProvider"):
        OnnxRuntimeCudaEngine.load(path, name="feed", device=0, stream=1)


def test_the_double_has_the_methods_of_a_session_and_its_binding() -> None:
    for name in ("bind_input", "bind_output"):
        assert list(signature(getattr(Binding, name)).parameters) == list(
            signature(getattr(ort.IOBinding, name)).parameters
        )
    for name in ("run_with_iobinding", "run"):
        wanted = list(signature(getattr(ort.InferenceSession, name)).parameters)
        assert wanted[:3] == list(signature(getattr(Session, name)).parameters)[:3]


def arrays(stream: DeferredStream, engine: OnnxRuntimeCudaEngine) -> dict[str, Any]:
    specs: dict[str, TensorSpec] = {**engine.inputs, **engine.outputs}
    return {name: stream.zeros(SHAPES[name], spec.dtype) for name, spec in specs.items()}


def test_buffers_are_bound_by_address_and_runs_are_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, session = loaded(path, monkeypatch, ["CUDAExecutionProvider", "CPUExecutionProvider"])
    stream = DeferredStream()
    buffers = arrays(stream, engine)
    call, (binding,) = engine.bind(buffers), session.bindings
    for name, array in buffers.items():
        assert binding.bound[name] == ("cuda", 1, array.dtype.type, list(array.shape), array.address)
    call.run()
    stream.warming = True
    call.run()
    assert session.entries == ["1", "1"]
    assert stream.slow_runs == 1


def test_arrays_of_the_host_are_served_for_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = loaded(path, monkeypatch, ["CUDAExecutionProvider"])
    inputs = {name: np.zeros(SHAPES[name], spec.dtype) for name, spec in engine.inputs.items()}
    inputs["new_tokens"] = np.array([[4, 5]])
    inputs["write_positions"] = np.array([[1, 2]])
    assert engine.run_once(inputs)["token_log_out"].tolist() == [[0, 4, 5, 0, 0, 0]]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("CUDA failure 700: CUDA_ERROR_ILLEGAL_ADDRESS", DeviceFailed),
        ("Failed to allocate memory for requested buffer", OutOfMemory),
        ("Non-zero status code", EngineError),
    ],
)
def test_what_fails_is_told_apart(
    path: Path, monkeypatch: pytest.MonkeyPatch, message: str, kind: type[EngineError]
) -> None:
    engine, session = loaded(path, monkeypatch, ["CUDAExecutionProvider"])
    call = engine.bind(arrays(DeferredStream(), engine))
    session.error = RuntimeError(message)
    with pytest.raises(EngineError) as raised:
        call.run()
    assert type(raised.value) is kind


def test_a_closed_engine_refuses_everything(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = loaded(path, monkeypatch, ["CUDAExecutionProvider"])
    stream = DeferredStream()
    call = engine.bind(arrays(stream, engine))
    engine.close()
    engine.close()
    for action in (call.run, lambda: engine.bind(arrays(stream, engine)), lambda: engine.run_once({})):
        with pytest.raises(EngineError):
            action()
