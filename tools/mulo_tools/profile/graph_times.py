"""Times the graphs of a bundle at every size, on buffers that are bound once as the loop binds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.cost import Cost, graph_cost
from mulo_engines.engine import Buffers, Engine
from mulo_engines.signature import graph_signature

from mulo_tools.blank_buffers import blank_buffers
from mulo_tools.profile.cases import Case, cases_of
from mulo_tools.profile.latency import Budget, Latency, measure
from mulo_tools.timed_calls import timed_call

__all__ = ["CaseTime", "OtherRunner", "Timing", "time_graph"]

OtherRunner = Callable[[Engine, Buffers, Budget], Latency | None]
"""Times an engine in another way than by a bound call; None where it cannot."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How graphs are timed.

    Attributes:
        budget: how often each size of each graph.
        queries: the largest number of queries of one pass.
        other: another runner to time beside the bound call; None for none.
    """

    budget: Budget
    queries: int
    other: OtherRunner | None = None


@dataclass(frozen=True, slots=True)
class CaseTime:
    """What one size of a graph took.

    Attributes:
        case: the size.
        load: seconds that loading the graph took, the same for all of its sizes.
        bound: by a bound call; cold is the first call of this size.
        other: by the other runner.
        cost: what a pass must move and compute.
    """

    case: Case
    load: float
    bound: Latency
    other: Latency | None
    cost: Cost


def time_graph(bundle: Bundle, backend: Backend, graph: str, timing: Timing) -> list[CaseTime]:
    """Load `graph` and time it at every one of its sizes.

    Raises:
        EngineError: it cannot be loaded or run.
    """
    start = perf_counter()
    with backend.load(bundle, graph) as engine:
        load = perf_counter() - start
        cases = cases_of(bundle.manifest, engine, timing.queries)
        return [_time_case(bundle, backend, engine, case, load, timing) for case in cases]


def _time_case(bundle: Bundle, backend: Backend, engine: Engine, case: Case, load: float, timing: Timing) -> CaseTime:
    buffers = blank_buffers(graph_signature(bundle.manifest, case.graph), case.sizes)
    with timed_call(backend, engine, buffers) as call:
        bound = measure(call, timing.budget)
    other = None if timing.other is None else timing.other(engine, buffers, timing.budget)
    return CaseTime(case, load, bound, other, graph_cost(bundle, case.graph, case.sizes))
