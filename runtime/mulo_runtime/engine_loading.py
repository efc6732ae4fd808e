"""The engines that a pipeline needs, loaded all or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.manifest import Manifest

from mulo_runtime.graphs import graphs_for
from mulo_runtime.settings import Method

__all__ = ["close_engines", "load_engines", "needed_graphs"]


def needed_graphs(backend: Backend, manifest: Manifest, methods: Sequence[Method]) -> Sequence[str]:
    """The graphs that a pipeline for `methods` needs engines for, if they are `backend`'s.

    Raises:
        RequestError: see `graphs_for`.
    """
    graphs = graphs_for(manifest, methods)
    return (*graphs, "feed") if backend.on_device else graphs


def load_engines(
    backend: Backend, bundle: Bundle, graphs: Sequence[str], slots: Mapping[str, int]
) -> dict[str, Engine]:
    """The engines of `graphs` by name.

    Args:
        backend: loads them.
        bundle: the bundle, opened.
        graphs: what to load.
        slots: how long the caches must be at least, by graph.

    Raises:
        EngineError: one cannot be loaded; the others are closed again.
    """
    engines: dict[str, Engine] = {}
    try:
        for name in graphs:
            engines[name] = backend.load(bundle, name, slots.get(name, 0))
    except BaseException:
        close_engines(engines)
        raise
    return engines


def close_engines(engines: dict[str, Engine]) -> None:
    """Free all of them."""
    for engine in engines.values():
        engine.close()
