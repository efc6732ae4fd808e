"""The engines that a pipeline needs, loaded all or none."""

from __future__ import annotations

from collections.abc import Sequence

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine

from mulo_runtime.lane import LANE_GRAPHS

__all__ = ["GRAPHS", "close_engines", "load_engines", "needed_graphs"]

GRAPHS = (*LANE_GRAPHS, "drafter.condition", "target.condition")
"""The graphs that a pipeline needs engines for, if they run on the host."""


def needed_graphs(backend: Backend) -> Sequence[str]:
    """The graphs that a pipeline needs engines for, if they are `backend`'s."""
    return (*GRAPHS, "feed") if backend.on_device else GRAPHS


def load_engines(backend: Backend, bundle: Bundle) -> dict[str, Engine]:
    """The engines of `needed_graphs` by name.

    Raises:
        EngineError: one cannot be loaded; the others are closed again.
    """
    engines: dict[str, Engine] = {}
    try:
        for name in needed_graphs(backend):
            engines[name] = backend.load(bundle, name)
    except BaseException:
        close_engines(engines)
        raise
    return engines


def close_engines(engines: dict[str, Engine]) -> None:
    """Free all of them."""
    for engine in engines.values():
        engine.close()
