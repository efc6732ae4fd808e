"""The memory of a pipeline over a bundle, as its lanes will allocate it."""

from __future__ import annotations

from collections.abc import Sequence

from mulo_engines.manifest import Manifest
from mulo_engines.memory import MemoryPlan, ModelBuffers, plan_memory
from mulo_runtime import Method
from mulo_runtime.buckets import query_bucket
from mulo_runtime.capacity import drafter_slots, target_slots

__all__ = ["lane_memory"]

_SLOT_ALIGNMENT = 8


def lane_memory(manifest: Manifest, methods: Sequence[Method], *, images: int = 1, queries: int = 256) -> MemoryPlan:
    """Bytes of the weights and of one lane.

    Args:
        manifest: sizes.
        methods: the methods that the lane's buffers hold.
        images: N, the images that the lane decodes together.
        queries: the largest number of queries of one pass.
    """
    grid = manifest.target.rows, manifest.target.cols
    draft_grid = manifest.drafter.rows, manifest.drafter.cols
    largest = query_bucket(min(queries, grid[0] * grid[1]))

    def buffers(slots: int) -> ModelBuffers:
        filled = manifest.condition.length + slots + largest
        return ModelBuffers(slots=-(-filled // _SLOT_ALIGNMENT) * _SLOT_ALIGNMENT, queries=largest)

    return plan_memory(
        manifest,
        lanes=1,
        images=images,
        drafter=buffers(max(drafter_slots(method, draft_grid) for method in methods)),
        target=buffers(max(target_slots(method, grid, manifest.ratio) for method in methods)),
    )
