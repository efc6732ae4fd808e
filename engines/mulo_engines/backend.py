"""Backends: what loads the graphs of a bundle as engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineMismatch, EngineUnavailable
from mulo_engines.layer_time import LayerTime
from mulo_engines.memory import available_memory
from mulo_engines.signature import check_signature, graph_signature
from mulo_engines.stream import Stream

__all__ = ["Backend", "Limits"]


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
