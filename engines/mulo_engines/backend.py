"""Backends: what loads the graphs of a bundle as engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineMismatch, EngineUnavailable
from mulo_engines.layer_time import LayerTime
from mulo_engines.signature import check_signature, graph_signature
from mulo_engines.supported import check_python, check_version

__all__ = ["BACKEND_NAMES", "Backend", "OnnxRuntimeBackend", "open_backend"]

BACKEND_NAMES = ("onnxruntime",)


class Backend(ABC):
    """One way to run graphs, with its settings."""

    def load(self, bundle: Bundle, graph: str) -> Engine:
        """Load `graph` of `bundle`; the engine is called like the graph.

        Raises:
            BundleError: the bundle has no such graph.
            EngineMismatch: the graph has other inputs and outputs than the manifest implies.
            EngineError: the graph cannot be loaded.
        """
        engine = self._load(bundle, graph)
        try:
            check_signature(engine, graph_signature(bundle.manifest, graph))
        except EngineMismatch:
            engine.close()
            raise
        return engine

    def load_file(self, path: Path, name: str) -> Engine:
        """Load the graph at `path`, which is no bundle's, as an engine called `name`.

        Raises:
            EngineUnavailable: the backend loads only what was compiled for a bundle.
            EngineError: the graph cannot be loaded.
        """
        raise EngineUnavailable(f"{type(self).__name__} loads only what was compiled for a bundle", found=path)

    def layer_times(self, bundle: Bundle, graph: str, exercise: Callable[[Engine], None]) -> list[LayerTime]:
        """Load `graph` with its layers timed and let `exercise` run it, twice or more; the first pass is not counted.

        Raises:
            EngineUnavailable: the backend does not tell how long a layer takes.
            EngineError: the graph cannot be loaded or run.
        """
        raise EngineUnavailable(f"{type(self).__name__} does not tell how long the layers of {graph!r} take")

    @abstractmethod
    def _load(self, bundle: Bundle, graph: str) -> Engine:
        """Load `graph`, whatever its inputs and outputs."""


class OnnxRuntimeBackend(Backend):
    """ONNX Runtime on the CPU.

    Args:
        threads: how many threads one call uses; 0 means all cores.
        spinning: whether idle threads wait actively, which is faster unless the cores are shared.

    Raises:
        EngineUnavailable: ONNX Runtime is not installed.
        UnsupportedVersion: mulo is not made for its version.
    """

    def __init__(self, threads: int = 0, *, spinning: bool = True) -> None:
        from mulo_engines.onnxruntime.engine import VERSION, OnnxRuntimeEngine

        check_version("onnxruntime", VERSION)
        self._engine_class, self._threads, self._spinning = OnnxRuntimeEngine, threads, spinning

    def load_file(self, path: Path, name: str) -> Engine:
        """See `Backend.load_file`."""
        return self._engine_class.load(path, name=name, threads=self._threads, spinning=self._spinning)

    def layer_times(self, bundle: Bundle, graph: str, exercise: Callable[[Engine], None]) -> list[LayerTime]:
        """See `Backend.layer_times`."""
        from mulo_engines.onnxruntime.trace import read_layer_times

        with TemporaryDirectory() as folder:
            trace, path = Path(folder, "trace"), bundle.graph(graph)
            with self._engine_class.load(path, name=graph, threads=self._threads, trace=trace) as engine:
                exercise(engine)
                return read_layer_times(engine.end_trace())

    def _load(self, bundle: Bundle, graph: str) -> Engine:
        if "bfloat16" in (bundle.manifest.drafter.cache_dtype, bundle.manifest.target.cache_dtype):
            raise EngineMismatch(
                f"{bundle.path}: the bundle cannot run on the CPU, whose kernels do not compute in bfloat16",
                found=f"precision {bundle.manifest.precision}",
                expected="fp32, fp16, int8 or int4",
                fix="export it again with another --precision, or run it on a GPU",
            )
        return self.load_file(bundle.graph(graph), graph)


def open_backend(name: str, *, threads: int = 0, spinning: bool = True) -> Backend:
    """The backend called `name`; see its class for the settings.

    Raises:
        EngineUnavailable: there is no such backend, or its library is not installed.
        UnsupportedVersion: mulo is not made for the version of its library, or of Python.
    """
    check_python()
    if name not in BACKEND_NAMES:
        raise EngineUnavailable("there is no such backend", found=name, expected=", ".join(BACKEND_NAMES))
    return OnnxRuntimeBackend(threads, spinning=spinning)
