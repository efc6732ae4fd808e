"""Everything that a lane may meet on a request, met before the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from mulo_engines.buckets import query_buckets

from mulo_runtime.batch import Batch
from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.guard import make_guard
from mulo_runtime.lane import Lane
from mulo_runtime.model import CachedModel
from mulo_runtime.run import Run
from mulo_runtime.settings import Method, MuloSD, Sampling

__all__ = ["warm_lane"]

_ACCEPT_ALL, _REJECT_ALL = 0.0, 2.0
_UNGUIDED, _GUIDED = Sampling(guidance_scale=1.0), Sampling(guidance_scale=2.0)


def warm_lane(lane: Lane, conditions: ConditionEncoder, methods: Sequence[Method], sampling: Sampling) -> None:
    """Decode whole images by every one of `methods`, and run every size of pass, with guidance and without.

    MuLo-SD is walked three times: as it is, accepting every candidate, and rejecting every candidate.
    """
    with lane.warming():
        for method in walked_methods(methods):
            batch = Batch([conditions.example()] * lane.images, [0] * lane.images, method, sampling, None)
            for _ in Run(batch, conditions, lane, make_guard(lane, None, None)).events():
                pass
        for guidance in (_UNGUIDED, _GUIDED):
            _walk_buckets(lane, conditions, guidance)


def walked_methods(methods: Sequence[Method]) -> Iterator[Method]:
    """Each of `methods`, and MuLo-SD with all candidates accepted and with all rejected, too."""
    for method in methods:
        yield method
        if isinstance(method, MuloSD):
            yield from (replace(method, tau=tau) for tau in (_ACCEPT_ALL, _REJECT_ALL))


def _walk_buckets(lane: Lane, conditions: ConditionEncoder, sampling: Sampling) -> None:
    images = lane.images
    halves = {"target": sampling.guided, "drafter": sampling.guided}
    embeds, visible = conditions.encode([conditions.example()] * images, halves)
    models: Sequence[tuple[str, CachedModel, tuple[int, int]]] = (
        ("target", lane.target, lane.grid),
        ("drafter", lane.drafter, lane.draft_grid),
    )
    for name, model, (rows, cols) in models:
        model.passes.configure(sampling, pool_k=1)
        model.begin(embeds[name], visible, None, np.zeros((images, 1), np.float32))
        for bucket in query_buckets(min(lane.queries, rows * cols - 1)):
            queries = min(bucket, rows * cols - 1)
            model.feed(
                tokens=np.zeros((images, queries), np.int64),
                positions=np.arange(queries)[None].repeat(images, 0),
                counts=[queries] * images,
                candidates=None,
                uniforms=np.zeros((images, queries), np.float32),
            )
            model.rewind(0)
