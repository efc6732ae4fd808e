"""The engines that a pipeline needs, loaded all or none."""

from __future__ import annotations

from collections.abc import Sequence

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest

from mulo_runtime.capacity import lane_memory, lane_sizes
from mulo_runtime.graphs import graphs_for
from mulo_runtime.settings import Method

__all__ = ["admitted_queries", "close_engines", "load_engines", "needed_graphs"]


def needed_graphs(backend: Backend, manifest: Manifest, methods: Sequence[Method]) -> Sequence[str]:
    """The graphs that a pipeline for `methods` needs engines for, if they are `backend`'s.

    Raises:
        RequestError: see `graphs_for`.
    """
    graphs = graphs_for(manifest, methods)
    return (*graphs, "feed") if backend.on_device else graphs


def admitted_queries(backend: Backend, bundle: Bundle, images: int, queries: int) -> int:
    """The most queries of a pass that the engines serve, up to `queries`.

    Raises:
        RequestError: they were compiled for fewer than `images` images.
    """
    limits = backend.limits(bundle)
    if limits is None:
        return queries
    if images > limits.images:
        raise RequestError(
            "the engines were compiled for fewer images",
            found=f"{images} decoded together",
            expected=f"at most {limits.images}",
            fix=f"mulo-export build {bundle.path} --images {images}",
        )
    return min(queries, limits.queries)


def load_engines(
    backend: Backend, bundle: Bundle, methods: Sequence[Method], *, lanes: int, images: int, queries: int
) -> dict[str, Engine]:
    """The engines that a pipeline for `methods` needs, by name, once its memory is known to suffice.

    Args:
        backend: loads them.
        bundle: the bundle, opened.
        methods: what the pipeline's lanes hold.
        lanes: how many there are.
        images: N.
        queries: the largest number of queries of one pass.

    Raises:
        RequestError: see `graphs_for`.
        OutOfMemory: weights and buffers do not fit the memory that is there; the sum is shown.
        EngineError: one cannot be loaded; the others are closed again.
    """
    plan = lane_memory(bundle.manifest, methods, lanes=lanes, images=images, queries=queries)
    scratch = lanes * backend.scratch_bytes(bundle)
    (plan.plus("scratch", scratch) if scratch else plan).require(backend.available_memory())
    sizes = lane_sizes(bundle.manifest, methods, queries)
    slots = {"target": sizes.target.slots, "drafter": sizes.drafter.slots}
    engines: dict[str, Engine] = {}
    try:
        for name in needed_graphs(backend, bundle.manifest, methods):
            engines[name] = backend.load(bundle, name, slots.get(name, 0))
    except BaseException:
        close_engines(engines)
        raise
    return engines


def close_engines(engines: dict[str, Engine]) -> None:
    """Free all of them."""
    for engine in engines.values():
        engine.close()
