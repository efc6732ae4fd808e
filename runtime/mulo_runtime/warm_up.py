"""Everything that a lane may meet on a request, met before the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from mulo_runtime.batch import Batch
from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.guard import make_guard
from mulo_runtime.lane import Lane
from mulo_runtime.lane_pool import LanePool
from mulo_runtime.run import Run
from mulo_runtime.settings import Method, MuloSD, Sampling

__all__ = ["warm_lanes"]

_ACCEPT_ALL, _REJECT_ALL = 0.0, 2.0


def warm_lanes(pool: LanePool, conditions: ConditionEncoder, methods: Sequence[Method], sampling: Sampling) -> None:
    """Warm up every lane of `pool`.

    Raises:
        EngineError: an engine failed.
        Busy, PipelineClosed: no lane, as they say.
    """
    with ExitStack() as leases:
        # Each is held while the next is leased, for a lane that is given back would be the next.
        for _ in range(pool.load().lanes):
            _warm(leases.enter_context(pool.lease(pool.enter())), conditions, methods, sampling)


def _warm(lane: Lane, conditions: ConditionEncoder, methods: Sequence[Method], sampling: Sampling) -> None:
    """Run every size of pass, with guidance and without, and decode whole images by every one of `methods`.

    MuLo-SD is walked three times: as it is, accepting every candidate, and rejecting every candidate.
    """
    with lane.warming():
        for model in (lane.target, lane.drafter):
            model.passes.warm()
        for method in walked_methods(methods):
            batch = Batch([conditions.example()] * lane.images, [0] * lane.images, method, sampling, None)
            for _ in Run(batch, conditions, lane, make_guard(lane, None, None)).events():
                pass


def walked_methods(methods: Sequence[Method]) -> Iterator[Method]:
    """Each of `methods`, and MuLo-SD with all candidates accepted and with all rejected, too."""
    for method in methods:
        yield method
        if isinstance(method, MuloSD):
            yield from (replace(method, tau=tau) for tau in (_ACCEPT_ALL, _REJECT_ALL))
