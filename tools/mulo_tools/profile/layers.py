"""How long the layers of a graph take, where its backend tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.layer_time import LayerTime
from mulo_engines.signature import graph_signature

from mulo_tools.blank_buffers import blank_buffers
from mulo_tools.profile.cases import Case

__all__ = ["CaseLayers", "by_kind", "time_layers"]

_PASSES = 10


@dataclass(frozen=True, slots=True)
class CaseLayers:
    """The layers of a graph at one size, in the order in which they run."""

    case: Case
    layers: Sequence[LayerTime]


def time_layers(bundle: Bundle, backend: Backend, case: Case) -> CaseLayers:
    """Time every layer of the graph of `case`, mean of a few warm passes.

    Raises:
        EngineUnavailable: the backend does not tell how long a layer takes.
    """
    buffers = blank_buffers(graph_signature(bundle.manifest, case.graph), case.sizes)

    def exercise(engine: Engine) -> None:
        call = engine.bind(buffers)
        for _ in range(1 + _PASSES):
            call.run()

    return CaseLayers(case, backend.layer_times(bundle, case.graph, exercise))


def by_kind(layers: Sequence[LayerTime]) -> dict[str, float]:
    """Seconds of a pass by operator, the slowest first."""
    sums: dict[str, float] = {}
    for layer in layers:
        sums[layer.kind] = sums.get(layer.kind, 0.0) + layer.seconds
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
