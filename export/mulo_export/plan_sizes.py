"""For what sizes the plans of a bundle are made, and what a lane of them takes."""

from __future__ import annotations

from dataclasses import replace

from mulo_engines.cache_slots import SLOT_ALIGNMENT, model_buffers, recommended_buffers
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_engines.memory import MemoryPlan, ModelBuffers, plan_memory
from mulo_engines.tensorrt.profiles import PlanSizes

from mulo_export.options import CompileOptions

__all__ = ["lane_plan", "plan_sizes"]


def plan_sizes(manifest: Manifest, options: CompileOptions) -> PlanSizes:
    """The sizes that `options` ask for, or else what the manifest's recommended settings need.

    Raises:
        RequestError: a cache is too short, its length suits no kernel, or a short cache is not the shorter one.
    """
    drafter, target = recommended_buffers(manifest, options.queries)
    drafter = _with_slots(manifest, "drafter", drafter, options.drafter_slots)
    target = _with_slots(manifest, "target", target, options.target_slots)
    asked = {"drafter": (drafter, options.drafter_short_slots), "target": (target, options.target_short_slots)}
    short = {role: _short(manifest, role, buffers, slots) for role, (buffers, slots) in asked.items() if slots}
    return PlanSizes(options.images, drafter, target, short)


def lane_plan(manifest: Manifest, sizes: PlanSizes) -> MemoryPlan:
    """What one lane takes; a second plan of a model holds its weights again, and shares its cache."""
    plan = plan_memory(manifest, lanes=1, images=sizes.images, drafter=sizes.drafter, target=sizes.target)
    weights = {graph.name: graph.weights for graph in manifest.graphs}
    again = {
        f"{role} weights again, for {slots} slots": sum(plan.parts[path] for path in weights[role])
        for role, slots in sizes.short.items()
    }
    return MemoryPlan({**plan.parts, **again})


def _with_slots(manifest: Manifest, role: str, buffers: ModelBuffers, slots: int | None) -> ModelBuffers:
    """`buffers` with a cache of `slots`, which must hold the condition, an image and a pass."""
    if slots is None:
        return buffers
    model = manifest.drafter if role == "drafter" else manifest.target
    least = model_buffers(manifest.condition.length, model.rows * model.cols, buffers.queries).slots
    if slots < least or slots % SLOT_ALIGNMENT:
        raise RequestError(
            f"no image of the {role} fits a cache of this length",
            found=f"{slots} slots",
            expected=f"at least {least}, and a multiple of {SLOT_ALIGNMENT}",
            fix=f"give another --{role}-slots, or none",
        )
    return replace(buffers, slots=slots)


def _short(manifest: Manifest, role: str, buffers: ModelBuffers, slots: int) -> int:
    """`slots`, which must hold the condition, a row and a pass, and be fewer than those of the whole image."""
    model = manifest.drafter if role == "drafter" else manifest.target
    least = model_buffers(manifest.condition.length, model.cols, buffers.queries).slots
    if not least <= slots < buffers.slots or slots % SLOT_ALIGNMENT:
        raise RequestError(
            f"a second plan of the {role} cannot have a cache of this length",
            found=f"{slots} slots",
            expected=f"{least} to {buffers.slots - SLOT_ALIGNMENT}, and a multiple of {SLOT_ALIGNMENT}",
            fix=f"give another --{role}-short-slots, fewer --queries, or none",
        )
    return slots
