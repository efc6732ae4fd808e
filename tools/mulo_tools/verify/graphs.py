"""The graphs of two sides on the same inputs: which tensor differs most, where, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mulo_engines.cache_slots import recommended_buffers
from mulo_engines.cache_tensors import cache_names, cache_spec, updated_name
from numpy.typing import NDArray

from mulo_tools.verify.graph_inputs import Step, steps_of
from mulo_tools.verify.side import Side, tolerance

__all__ = ["Difference", "compare_graph"]

_NEAR_TIES = 0.05
"""Share of integers that may lie so near an edge that rounding takes them across."""
_LEVELS = 1
"""By which a pixel may differ."""

Outputs = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a tensor of one side lies from that of the other.

    Attributes:
        graph: the graph.
        step: the pass.
        tensor: the output.
        metric: what is measured.
        value: how much of it; infinite where one side is not finite and the other is.
        tolerance: the most that is allowed.
        place: index of the element that differs most.
        elements: its two values, the first side's first.
    """

    graph: str
    step: str
    tensor: str
    metric: str
    value: float
    tolerance: float
    place: tuple[int, ...]
    elements: tuple[float, float]

    @property
    def within(self) -> bool:
        """Whether the sides agree."""
        return self.value <= self.tolerance


def compare_graph(a: Side, b: Side, graph: str, seed: int) -> Difference:
    """Run `graph` on both sides, and give the tensor that comes nearest to its tolerance or exceeds it by most.

    Raises:
        EngineError: a side cannot run it.
    """
    steps, allowed = steps_of(a.bundle.manifest, graph, seed), tolerance(a, b)
    differences = [
        _difference(graph, label, name, first[name], second[name], allowed)
        for (label, _), first, second in zip(steps, _run(a, graph, steps), _run(b, graph, steps), strict=True)
        for name in first
        if name in second  # A target without a head does not tell hidden states.
    ]
    return max(differences, key=lambda difference: difference.value / difference.tolerance)


def _run(side: Side, graph: str, steps: Sequence[Step]) -> Iterator[Outputs]:
    """The outputs of every step; those of a transformer see the cache that the step before left."""
    if graph not in ("target", "drafter"):
        yield from (side.run(graph, inputs) for _, inputs in steps)
        return
    slots, caches = _slots(side, graph), _empty_caches(side, graph)
    for _, inputs in steps:
        places = inputs["position_ids"][0]
        mask = (np.arange(slots) <= places[:, None])[None, None]
        outputs = side.run(graph, {**inputs, "attn_mask": mask, **caches})
        caches = {name: outputs[updated_name(name)] for name in caches}
        filled = places[-1] + 1
        yield {**outputs, **{updated_name(name): cache[:, :, :filled] for name, cache in caches.items()}}


def _slots(side: Side, graph: str) -> int:
    """S: what the graph was compiled for, else what the bundle's settings need."""
    compiled = cache_spec(side.engines[graph].inputs).shape[2]
    if isinstance(compiled, int):
        return compiled
    drafter, target = recommended_buffers(side.bundle.manifest, queries=1)
    return target.slots if graph == "target" else drafter.slots


def _empty_caches(side: Side, graph: str) -> dict[str, NDArray[Any]]:
    manifest = side.bundle.manifest
    model = manifest.target if graph == "target" else manifest.drafter
    shape = 2, model.heads, _slots(side, graph), model.head_dim
    return {name: np.zeros(shape) for name in cache_names(model.layers)}


def _difference(graph: str, step: str, tensor: str, a: NDArray[Any], b: NDArray[Any], allowed: float) -> Difference:
    if a.shape != b.shape:
        return Difference(graph, step, tensor, f"shape {list(a.shape)}, {list(b.shape)}", np.inf, allowed, (), (0, 0))
    first, second = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second)
    # NaN hides behind every comparison: it is far from everything but itself.
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    apart[~np.isfinite(apart)] = np.inf
    apart[same] = 0
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    metric, value, allowed = _measured(a.dtype, apart, second, allowed)
    elements = float(first[place]), float(second[place])
    return Difference(graph, step, tensor, metric, value, allowed, tuple(map(int, place)), elements)


def _measured(
    dtype: np.dtype[Any], apart: NDArray[np.float64], reference: NDArray[np.float64], allowed: float
) -> tuple[str, float, float]:
    """What is measured of a tensor of this type, how much of it there is, and how much may be."""
    if dtype.kind == "f":
        size = float(np.linalg.norm(reference[np.isfinite(reference)]))
        return "relative error", float(np.linalg.norm(apart)) / (size or 1.0), allowed
    if dtype == np.uint8:
        return f"share off by more than {_LEVELS}", float(np.mean(apart > _LEVELS)), _NEAR_TIES
    return "share that differs", float(np.mean(apart > 0)), _NEAR_TIES
