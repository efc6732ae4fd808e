"""Backends: what loads the graphs of a bundle as engines."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineMismatch, EngineUnavailable
from mulo_engines.signature import check_signature, graph_signature

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
    """

    def __init__(self, threads: int = 0, *, spinning: bool = True) -> None:
        from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine

        self._engine_class, self._threads, self._spinning = OnnxRuntimeEngine, threads, spinning

    def _load(self, bundle: Bundle, graph: str) -> Engine:
        if "bfloat16" in (bundle.manifest.drafter.cache_dtype, bundle.manifest.target.cache_dtype):
            raise EngineMismatch(
                f"{bundle.path}: the bundle cannot run on the CPU, whose kernels do not compute in bfloat16",
                found=f"precision {bundle.manifest.precision}",
                expected="any other precision",
                fix="export it again with another --precision, or run it on a GPU",
            )
        path = bundle.graph(graph)
        return self._engine_class.load(path, name=graph, threads=self._threads, spinning=self._spinning)


def open_backend(name: str, *, threads: int = 0, spinning: bool = True) -> Backend:
    """The backend called `name`; see its class for the settings.

    Raises:
        EngineUnavailable: there is no such backend, or its library is not installed.
    """
    if name not in BACKEND_NAMES:
        raise EngineUnavailable("there is no such backend", found=name, expected=", ".join(BACKEND_NAMES))
    return OnnxRuntimeBackend(threads, spinning=spinning)
