"""The sizes with which a graph is called, as optimisation profiles: for every size of each, least, best and most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mulo_engines.cache_slots import pass_buckets
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import ShapeError
from mulo_engines.manifest import Manifest
from mulo_engines.memory import ModelBuffers

__all__ = [
    "PlanSizes",
    "Profile",
    "Range",
    "Shapes",
    "graph_profiles",
    "input_shapes",
    "sizes_of_plans",
    "static_sizes",
]

Range = tuple[int, int, int]
"""Least, best and most of a size."""
Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Least, best and most of a shape."""


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """For what the plans of a bundle are made.

    Attributes:
        images: N, the most images that are decoded together.
        drafter: sizes of the drafter's buffers; a plan has one S, and this is the longest.
        target: sizes of the target's buffers, likewise.
        short: by role, the S of a second plan for the first rows of an image; none for a role that has one plan.
    """

    images: int
    drafter: ModelBuffers
    target: ModelBuffers
    short: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """One optimisation profile.

    Attributes:
        name: what errors and `engine.json` call it.
        sizes: ranges by symbol of the graph's signature.

    Raises:
        ShapeError: a range is not in order.
    """

    name: str
    sizes: Mapping[str, Range]

    def __post_init__(self) -> None:
        for symbol, (least, best, most) in self.sizes.items():
            if not 0 <= least <= best <= most:
                raise ShapeError(
                    f"profile {self.name!r}: the sizes of {symbol} are not in order",
                    found=f"min {least}, opt {best}, max {most}",
                    expected="0 <= min <= opt <= max",
                )


def graph_profiles(manifest: Manifest, graph: str, sizes: PlanSizes) -> tuple[Profile, ...]:
    """The profiles of `graph`; a transformer has one for its condition and one for every bucket of queries.

    B reaches from one image without guidance to all images with it: what differs is the work, not the kernel.
    """
    batch = {"N": _up_to(sizes.images), "B": _up_to(2 * sizes.images), "M": _up_to(_masks(sizes.images))}
    target, low = manifest.target, manifest.drafter
    queries = max(sizes.drafter.queries, sizes.target.queries)
    if graph in ("drafter", "target", "eagle"):
        model, buffers = (low, sizes.drafter) if graph == "drafter" else (target, sizes.target)
        common = {"B": batch["B"], "M": batch["M"], "S": _only(buffers.slots)}
        return tuple(_transformer_profiles(manifest.condition.length, pass_buckets(model, buffers), common))
    if graph in ("sampler", "sampler_full"):
        rows = [("row", (1, 1, 1)), *([("rows", (2, queries, queries))] if queries > 1 else [])]
        return tuple(Profile(name, {"B": batch["B"], "N": batch["N"], "R": size}) for name, size in rows)
    if graph == "feed":
        tokens = max(target.rows * target.cols, low.rows * low.cols)
        # One position more than there are tokens: what must not be kept is written there.
        log = {"L": _up_to(tokens + 1), "R": (1, 1, queries), "Q": (1, 1, queries)}
        return (Profile("log", {"N": batch["N"], **log}),)
    grids = {
        "upsampler": {"h": _up_to(low.rows), "w": _only(low.cols)},
        "downsampler": {"rh": _multiples(manifest.ratio, target.rows), "rw": _only(target.cols)},
        "decoder": {"h": _up_to(target.rows), "w": _only(target.cols)},
    }
    return (Profile("images", {"N": batch["N"], **grids.get(graph, {})}),)


def static_sizes(graph: str, sizes: PlanSizes) -> Mapping[str, int]:
    """The symbols that have one value in a plan: the length of a transformer's cache."""
    buffers = {"drafter": sizes.drafter, "target": sizes.target, "eagle": sizes.target}.get(graph)
    return {} if buffers is None else {"S": buffers.slots}


def sizes_of_plans(graph: str, sizes: PlanSizes) -> tuple[PlanSizes, ...]:
    """The sizes for which each plan of `graph` is made, that of the longest cache first."""
    if graph not in sizes.short:
        return (sizes,)
    slots = sizes.short[graph]
    if graph == "drafter":
        return sizes, replace(sizes, drafter=replace(sizes.drafter, slots=slots))
    return sizes, replace(sizes, target=replace(sizes.target, slots=slots))


def input_shapes(profile: Profile, spec: TensorSpec) -> Shapes:
    """The shapes of the input `spec` in `profile`."""
    least, best, most = (
        tuple(profile.sizes[size][place] if isinstance(size, str) else size for size in spec.shape)
        for place in range(3)
    )
    return least, best, most


def _transformer_profiles(prefix: int, buckets: Sequence[int], common: Mapping[str, Range]) -> Iterator[Profile]:
    nothing, condition = _only(0), _only(prefix)
    yield Profile("condition", {**common, "C": condition, "Q": nothing, "T": condition, "R": _only(1)})
    for bucket in buckets:
        # A range of T would save profiles, but then the builder fails where several fused attentions share one mask.
        queries = _only(bucket)
        yield Profile(f"queries-{bucket}", {**common, "C": nothing, "Q": queries, "T": queries, "R": _up_to(bucket)})


def _masks(images: int) -> int:
    """M at most: a lone image has one mask for both halves of guidance."""
    return 1 if images == 1 else 2 * images


def _only(size: int) -> Range:
    return size, size, size


def _up_to(most: int) -> Range:
    return 1, most, most


def _multiples(step: int, most: int) -> Range:
    return step, most, most
