"""Graphs run by ONNX Runtime's CUDA provider, on memory of a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

import onnxruntime as ort
from numpy.typing import NDArray

from mulo_engines.engine import Buffers, Call, Engine, check_inputs, closed_error, device_arrays
from mulo_engines.errors import EngineUnavailable
from mulo_engines.onnxruntime.engine import node_spec, session_failure, session_options
from mulo_engines.stream import DeviceArray, Stream

__all__ = ["OnnxRuntimeCudaEngine", "require_provider"]

_PROVIDER = "CUDAExecutionProvider"
_LIBRARY = "libonnxruntime_providers_cuda.so"


def require_provider() -> None:
    """Check that the CUDA provider can be loaded; a session without it would fall back to the CPU in silence.

    Raises:
        EngineUnavailable: it cannot; the reason is shown.
    """
    if _PROVIDER not in ort.get_available_providers():
        raise EngineUnavailable(
            "this ONNX Runtime is built for the CPU",
            found=", ".join(ort.get_available_providers()),
            expected=_PROVIDER,
            fix="pip uninstall onnxruntime; pip install 'mulo[gpu]'",
        )
    try:
        ctypes.CDLL(str(Path(ort.__file__).parent / "capi" / _LIBRARY))
    except OSError as error:
        raise _fallen_back(str(error)) from error


class OnnxRuntimeCudaEngine(Engine):
    """One session whose runs are enqueued on a stream."""

    def __init__(self, name: str, session: Any, device: int) -> None:
        super().__init__(
            name,
            [node_spec(name, node) for node in session.get_inputs()],
            [node_spec(name, node) for node in session.get_outputs()],
        )
        self._session, self._device = session, device
        self._calls: WeakSet[_CudaCall] = WeakSet()

    @classmethod
    def load(cls, path: Path, *, name: str, device: int, stream: int) -> OnnxRuntimeCudaEngine:
        """Load the graph at `path`.

        Args:
            path: the ONNX file; its external data lies in its folder or below.
            name: what errors call the engine.
            device: number of the GPU.
            stream: handle of the stream on which everything runs.

        Raises:
            EngineError: ONNX Runtime refuses the graph.
            EngineUnavailable: the session fell back to the CPU.
            OutOfMemory: the weights do not fit the memory of the GPU.
        """
        settings = {"device_id": str(device), "user_compute_stream": str(stream)}
        providers = [(_PROVIDER, settings), "CPUExecutionProvider"]
        try:
            session = ort.InferenceSession(str(path), session_options(), providers=providers)
        except Exception as error:
            raise session_failure(error, f"{name}: {path} cannot be loaded") from error
        if session.get_providers()[0] != _PROVIDER:
            raise _fallen_back(", ".join(session.get_providers()))
        return cls(name, session, device)

    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See `Engine.run_once`."""
        check_inputs(self, inputs)
        if self._session is None:
            raise closed_error(self.name)
        try:
            return dict(zip(self.outputs, self._session.run(list(self.outputs), dict(inputs)), strict=True))
        except Exception as error:
            raise session_failure(error, f"{self.name}: the graph failed") from error

    def close(self) -> None:
        """See `Engine.close`."""
        for call in tuple(self._calls):
            call.release()
        self._session = None

    def _bind(self, buffers: Buffers) -> Call:
        if self._session is None:
            raise closed_error(self.name)
        call = _CudaCall(self, self._session, self._device, device_arrays(self, buffers))
        self._calls.add(call)
        return call


class _CudaCall(Call):
    def __init__(self, engine: Engine, session: Any, device: int, arrays: Mapping[str, DeviceArray]) -> None:
        self._name, self._session, self._arrays = engine.name, session, arrays
        self._stream: Stream = next(iter(arrays.values())).stream
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self._binding = session.io_binding()
        for name in engine.inputs:
            self._binding.bind_input(name, "cuda", device, *_described(arrays[name]))
        for name in engine.outputs:
            self._binding.bind_output(name, "cuda", device, *_described(arrays[name]))

    def run(self) -> None:
        """See `Call.run`; ONNX Runtime enqueues kernel by kernel."""
        if self._session is None:
            raise closed_error(self._name)
        self._stream.slow_runs += not self._stream.warming
        try:
            self._session.run_with_iobinding(self._binding, self._options)
        except Exception as error:
            raise session_failure(error, f"{self._name}: the graph failed") from error

    def release(self) -> None:
        """Let go of the session and the buffers; the next run fails."""
        self._session = self._binding = None
        self._arrays = {}


def _described(array: DeviceArray) -> tuple[Any, list[int], int]:
    """Element type, shape and address, as a binding wants them."""
    return array.dtype.type, list(array.shape), array.address


def _fallen_back(reason: str) -> EngineUnavailable:
    return EngineUnavailable(
        "ONNX Runtime's CUDA provider cannot be loaded, and the CPU would take its place in silence",
        found=reason,
        expected=_PROVIDER,
        fix="install the CUDA and cuDNN libraries that this onnxruntime-gpu is built for",
    )
