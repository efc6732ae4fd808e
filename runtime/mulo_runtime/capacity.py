"""How large the buffers of a lane have to be for the methods that it serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mulo_engines.manifest import Manifest
from mulo_engines.memory import MemoryPlan, ModelBuffers, plan_memory

from mulo_runtime.buckets import query_bucket
from mulo_runtime.settings import Method, MuloSD, ZipAR

__all__ = ["LaneSizes", "drafter_slots", "lane_memory", "lane_sizes", "target_slots"]

Grid = tuple[int, int]

_SLOT_ALIGNMENT = 8
"""GPU attention kernels want a cache whose length is a multiple of this."""


@dataclass(frozen=True, slots=True)
class LaneSizes:
    """For what the buffers of a lane are made.

    Attributes:
        queries: the largest number of queries of one pass.
        target_slots, drafter_slots: the most slots that a method may fill behind the condition.
        target, drafter: the models' buffers, which hold the condition and the padding of a pass, too.
    """

    queries: int
    target_slots: int
    drafter_slots: int
    target: ModelBuffers
    drafter: ModelBuffers


def lane_sizes(manifest: Manifest, methods: Sequence[Method], queries: int) -> LaneSizes:
    """Sizes that hold every one of `methods` with passes of at most `queries` queries."""
    prefix, grid = manifest.condition.length, (manifest.target.rows, manifest.target.cols)
    draft_grid = manifest.drafter.rows, manifest.drafter.cols
    queries = min(queries, grid[0] * grid[1])
    target = max(target_slots(method, grid, manifest.ratio) for method in methods)
    drafter = max(drafter_slots(method, draft_grid) for method in methods)
    return LaneSizes(
        queries=queries,
        target_slots=target,
        drafter_slots=drafter,
        target=_model_buffers(prefix, target, queries),
        drafter=_model_buffers(prefix, drafter, queries),
    )


def target_slots(method: Method, grid: Grid, ratio: int) -> int:
    """The most slots that `method` fills behind the condition in the target's log; `grid` is the target's."""
    rows, cols = grid
    tokens = rows * cols
    if isinstance(method, MuloSD):
        round_rows = min(method.rows_per_round * ratio or rows, rows)
        # A resampled token is fed once as a predecessor, and once more where the end of its run is refreshed.
        appended = 2 * (round_rows * cols if method.refresh == "block" else tokens)
        return tokens + appended
    return tokens + (rows if isinstance(method, ZipAR) else 0)


def drafter_slots(method: Method, grid: Grid) -> int:
    """The most slots that `method` fills behind the condition in the drafter's log; `grid` is the drafter's."""
    if not isinstance(method, MuloSD):
        return 0
    rows, cols = grid
    drafted = rows * cols + rows
    if method.draft == "image" or not method.resynchronise:
        return drafted
    step = method.rows_per_round or rows
    rounds = -(-rows // step)
    return drafted + rounds * (step + method.look_ahead) * cols


def _model_buffers(prefix: int, slots: int, queries: int) -> ModelBuffers:
    """Sizes of a model's buffers.

    Args:
        prefix: P, positions of the condition.
        slots: slots that are filled behind it.
        queries: the largest number of queries of one pass; its bucket is the room that padding may need.
    """
    largest = query_bucket(queries)
    filled = prefix + slots + largest
    return ModelBuffers(slots=-(-filled // _SLOT_ALIGNMENT) * _SLOT_ALIGNMENT, queries=largest)


def lane_memory(
    manifest: Manifest, methods: Sequence[Method], *, lanes: int = 1, images: int = 1, queries: int = 256
) -> MemoryPlan:
    """Bytes of the weights and of the lanes' buffers.

    Args:
        manifest: sizes.
        methods: the methods that the buffers must hold.
        lanes: how many lanes there are.
        images: N, how many images a lane decodes together.
        queries: the largest number of queries of one pass.
    """
    sizes = lane_sizes(manifest, methods, queries)
    return plan_memory(manifest, lanes=lanes, images=images, drafter=sizes.drafter, target=sizes.target)
