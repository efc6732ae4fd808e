"""The engines that a pipeline needs, loaded all or none."""

from __future__ import annotations

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine

from mulo_runtime.lane import LANE_GRAPHS

__all__ = ["GRAPHS", "close_engines", "load_engines"]

GRAPHS = (*LANE_GRAPHS, "drafter.condition", "target.condition")
"""The graphs that a pipeline needs engines for."""


def load_engines(backend: Backend, bundle: Bundle) -> dict[str, Engine]:
    """The engines of `GRAPHS` by name.

    Raises:
        EngineError: one cannot be loaded; the others are closed again.
    """
    engines: dict[str, Engine] = {}
    try:
        for name in GRAPHS:
            engines[name] = backend.load(bundle, name)
    except BaseException:
        close_engines(engines)
        raise
    return engines


def close_engines(engines: dict[str, Engine]) -> None:
    """Free all of them."""
    for engine in engines.values():
        engine.close()
