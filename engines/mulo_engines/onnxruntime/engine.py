"""Graphs run by ONNX Runtime on the CPU; the only module that runs `onnxruntime`."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_engines.cuda.failures import failure
from mulo_engines.engine import Buffers, Call, Engine, TensorSpec, check_inputs, closed_error, host_arrays
from mulo_engines.errors import EngineError, EngineMismatch, EngineUnavailable, OutOfMemory

try:
    import onnxruntime as ort
except ImportError as error:
    raise EngineUnavailable(
        "ONNX Runtime is not installed", fix="pip install 'mulo[cpu]', or 'mulo[gpu]' on a machine with an NVIDIA GPU"
    ) from error

__all__ = ["VERSION", "OnnxRuntimeEngine", "node_spec", "session_failure", "session_options"]

VERSION: str = ort.__version__

_FATAL = 4
"""Log severity: every failure is raised as an exception, so that nothing less needs to be printed."""

_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(int64)": np.dtype(np.int64),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(uint8)": np.dtype(np.uint8),
    "tensor(bool)": np.dtype(np.bool_),
}
_MEMORY_MESSAGES = ("Failed to allocate memory", "bad_alloc", "bad allocation", "out of memory")


class OnnxRuntimeEngine(Engine):
    """One ONNX Runtime session; numpy arrays are its buffers.

    Weights are mapped from their file, so that engines share what is read as it lies there, such as embeddings.
    Matrices and convolutions are packed once per engine: read from the shared map (`session.disable_prepacking`) a
    pass of one token took 1.8 times as long, convolutions were copied even so, and `add_external_initializers` added
    the map to the packed copy. Packed weights saved to disk were shared at full speed, but double the bundle.
    """

    def __init__(self, name: str, session: ort.InferenceSession) -> None:
        super().__init__(
            name,
            [node_spec(name, node) for node in session.get_inputs()],
            [node_spec(name, node) for node in session.get_outputs()],
        )
        self._session: ort.InferenceSession | None = session
        self._calls: weakref.WeakSet[_OnnxRuntimeCall] = weakref.WeakSet()

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        name: str,
        threads: int = 0,
        spinning: bool = True,
        packed: bool = True,
        trace: Path | None = None,
    ) -> OnnxRuntimeEngine:
        """Load the graph at `path`.

        Args:
            path: the ONNX file; its external data lies in its folder or below.
            name: what errors call the engine.
            threads: how many threads one call uses; 0 means all cores.
            spinning: whether idle threads wait actively, which is faster unless the cores are shared.
            packed: whether matrices are packed in memory of the engine; without, it loads at once and needs memory
                for one of them at a time, which suits few passes.
            trace: where to write how long every node took, which `end_trace` ends; the path gets a suffix.

        Raises:
            EngineError: ONNX Runtime refuses the graph or its weights.
            EngineMismatch: an input or output has a type that ONNX Runtime does not run on the CPU.
            OutOfMemory: the weights do not fit the memory.
        """
        options = session_options()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
        if not packed:
            _leave_weights_in_their_file(options)
        if trace is not None:
            options.enable_profiling, options.profile_file_prefix = True, str(trace)
        try:
            session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise session_failure(error, f"{name}: {path} cannot be loaded") from error
        return cls(name, session)

    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See `Engine.run_once`."""
        session = self._open_session()
        check_inputs(self, inputs)
        try:
            return dict(zip(self.outputs, session.run(list(self.outputs), dict(inputs)), strict=True))
        except Exception as error:
            raise session_failure(error, f"{self.name}: the graph failed") from error

    def end_trace(self) -> Path:
        """Stop tracing, and give the file that was written; the engine was loaded to be traced."""
        return Path(self._open_session().end_profiling())

    @property
    def session(self) -> ort.InferenceSession:
        """The session itself, for libraries that measure it.

        Raises:
            EngineError: the engine was closed.
        """
        return self._open_session()

    def close(self) -> None:
        """See `Engine.close`."""
        for call in tuple(self._calls):
            call.release()
        self._session = None

    def _bind(self, buffers: Buffers) -> Call:
        call = _OnnxRuntimeCall(self.name, self._open_session(), self, host_arrays(self, buffers))
        self._calls.add(call)
        return call

    def _open_session(self) -> ort.InferenceSession:
        if self._session is None:
            raise closed_error(self.name)
        return self._session


class _OnnxRuntimeCall(Call):
    def __init__(
        self, name: str, session: ort.InferenceSession, engine: Engine, buffers: Mapping[str, NDArray[Any]]
    ) -> None:
        self._name = name
        self._buffers = dict(buffers)
        self._binding = session.io_binding()
        self._run = session.run_with_iobinding
        for input_name in engine.inputs:
            self._binding.bind_ortvalue_input(input_name, ort.OrtValue.ortvalue_from_numpy(buffers[input_name]))
        for output_name in engine.outputs:
            self._binding.bind_ortvalue_output(output_name, ort.OrtValue.ortvalue_from_numpy(buffers[output_name]))

    def run(self) -> None:
        """See `Call.run`."""
        try:
            self._run(self._binding)
        except EngineError:
            raise
        except Exception as error:
            raise session_failure(error, f"{self._name}: the graph failed") from error

    def release(self) -> None:
        """Let go of the session and the buffers; the next run fails."""
        name = self._name

        def refuse(_: object) -> None:
            raise closed_error(name)

        self._run, self._binding = refuse, None
        self._buffers.clear()


def session_options() -> ort.SessionOptions:
    """Options of every session."""
    options = ort.SessionOptions()
    options.log_severity_level = _FATAL
    return options


def _leave_weights_in_their_file(options: ort.SessionOptions) -> None:
    """Let a session keep no copy of a weight, neither packed nor, where no kernel computes in its type, widened.

    The last level of optimisation would widen all weights for good, and the default order all of them before the first
    layer: 7 B weights of float16 take 27 GB so. The arena would keep what the widest one took.
    """
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.enable_cpu_mem_arena = False


def node_spec(engine: str, node: ort.NodeArg) -> TensorSpec:
    """The declaration of an input or output of a session.

    Raises:
        EngineMismatch: it has a type that no backend of ONNX Runtime runs.
    """
    if node.type not in _DTYPES:
        raise EngineMismatch(
            f"{engine}: the type of {node.name!r} cannot be run by ONNX Runtime on the CPU",
            found=node.type,
            expected=", ".join(_DTYPES),
            fix="export the bundle with --precision fp32",
        )
    shape = (f"{node.name}.{axis}" if size is None else size for axis, size in enumerate(node.shape))
    return TensorSpec(node.name, _DTYPES[node.type], tuple(shape))


def session_failure(error: Exception, what: str) -> EngineError:
    """What a session's error is to be raised as."""
    message = str(error)
    if isinstance(error, MemoryError) or any(known in message for known in _MEMORY_MESSAGES):
        return OutOfMemory(what, found=message, fix="free memory, use fewer lanes, or a smaller batch")
    return failure(what, message)
