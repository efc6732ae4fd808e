"""Backends: what loads the graphs of a bundle as engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineMismatch, EngineUnavailable
from mulo_engines.layer_time import LayerTime
from mulo_engines.memory import available_memory
from mulo_engines.signature import check_signature, graph_signature
from mulo_engines.stream import Stream
from mulo_engines.supported import check_version

__all__ = ["Backend", "Limits", "OnnxRuntimeBackend", "refuse_bfloat16"]


@dataclass(frozen=True, slots=True)
class Limits:
    """For what a bundle's engines were compiled.

    Attributes:
        images: N, the most images that are decoded together.
        queries: the most queries of one pass.
    """

    images: int
    queries: int


class Backend(ABC):
    """One way to run graphs, with its settings.

    Attributes:
        on_device: whether engines run on a device, on memory of its streams.
        loads_files: whether it loads graphs that are no bundle's.
    """

    on_device: ClassVar[bool] = False
    loads_files: ClassVar[bool] = False

    def load(self, bundle: Bundle, graph: str, slots: int = 0) -> Engine:
        """Load `graph` of `bundle`; the engine is called like the graph.

        Args:
            bundle: the bundle, opened.
            graph: the graph's name.
            slots: S that its caches are to have at least, where it was compiled for several lengths: the shortest that
                suffices is taken, or else the longest.

        Raises:
            BundleError: the bundle has no such graph.
            EngineMismatch: the graph has other inputs and outputs than the manifest implies.
            EngineError: the graph cannot be loaded.
        """
        engine = self._load(bundle, graph, slots)
        try:
            check_signature(engine, graph_signature(bundle.manifest, graph))
        except EngineMismatch:
            engine.close()
            raise
        return engine

    def new_stream(self) -> Stream:
        """A stream of the device where engines run; of those that run on the host there is none.

        Raises:
            EngineUnavailable: engines run on the host.
        """
        raise EngineUnavailable(f"{type(self).__name__} runs on the host, which has no streams")

    def limits(self, bundle: Bundle) -> Limits | None:
        """For what the engines of `bundle` were compiled; None where they serve any size.

        Raises:
            EngineError: they cannot be used.
        """
        del bundle
        return None

    def available_memory(self) -> int | None:
        """Bytes that are free where engines and buffers lie; None where that is not known."""
        return available_memory()

    def scratch_bytes(self, bundle: Bundle) -> int:
        """Bytes that the engines of `bundle` need for each stream beside weights and buffers, as far as is known."""
        del bundle
        return 0

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
    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        """Load `graph`, whatever its inputs and outputs; see `load`."""


class OnnxRuntimeBackend(Backend):
    """ONNX Runtime on the CPU.

    Args:
        threads: how many threads one call uses; 0 means all cores.
        spinning: whether idle threads wait actively, which is faster unless the cores are shared.

    Raises:
        EngineUnavailable: ONNX Runtime is not installed.
        UnsupportedVersion: mulo is not made for its version.
    """

    loads_files: ClassVar[bool] = True

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

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        refuse_bfloat16(bundle, "on the CPU, whose kernels do not compute in bfloat16")
        return self.load_file(bundle.graph(graph), graph)


def refuse_bfloat16(bundle: Bundle, where: str) -> None:
    """Refuse a bundle that computes in bfloat16.

    Raises:
        EngineMismatch: it does.
    """
    if "bfloat16" in (bundle.manifest.drafter.cache_dtype, bundle.manifest.target.cache_dtype):
        raise EngineMismatch(
            f"{bundle.path}: the bundle cannot run {where}",
            found=f"precision {bundle.manifest.precision}",
            expected="any other precision",
            fix="export it again with another --precision, or run it by TensorRT",
        )
