"""How large the buffers of a lane have to be for the methods that it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mulo_engines import cache_slots
from mulo_engines.buckets import query_bucket, widest_pass
from mulo_engines.cache_slots import Grid, model_buffers
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_engines.memory import MemoryPlan, ModelBuffers, model_bytes, plan_memory

from mulo_runtime.settings import PJD, AdaptiveZipAR, Chain, Jacobi, Method, MuloSD, Sequential, ZipAR

__all__ = ["LaneSizes", "distribution_rows", "drafter_slots", "lane_memory", "lane_sizes", "target_slots"]

_FLOAT = 4


@dataclass(frozen=True, slots=True)
class LaneSizes:
    """For what the buffers of a lane are made.

    Attributes:
        queries: the largest number of queries of one pass.
        target_slots, drafter_slots: the most slots that a method may fill behind the condition.
        distributions: the most queries of a pass whose distributions a method wants.
        eagle: whether a method drafts with the target's head, whose buffers are as large as the target's.
        target, drafter: the models' buffers, which hold the condition and the padding of a pass, too.
    """

    queries: int
    target_slots: int
    drafter_slots: int
    distributions: int
    eagle: bool
    target: ModelBuffers
    drafter: ModelBuffers

    def with_slots(self, lengths: Mapping[str, int | str]) -> LaneSizes:
        """These sizes with the caches of "target" and "drafter" as long as their engines have them.

        Args:
            lengths: S by model; a symbol where an engine takes any.

        Raises:
            RequestError: an engine's cache is too short for the methods.
        """
        return replace(
            self,
            target=_with_length("target", self.target, lengths["target"]),
            drafter=_with_length("drafter", self.drafter, lengths["drafter"]),
        )


def lane_sizes(manifest: Manifest, methods: Sequence[Method], queries: int) -> LaneSizes:
    """Sizes that hold every one of `methods` with passes of at most `queries` queries.

    Raises:
        RequestError: a method tries more tokens in a pass than two for each position, which graphs do not take.
    """
    prefix, grid = manifest.condition.length, (manifest.target.rows, manifest.target.cols)
    draft_grid = manifest.drafter.rows, manifest.drafter.cols
    queries = min(queries, grid[0] * grid[1])
    target = max(target_slots(method, grid, manifest.ratio) for method in methods)
    drafter = max(drafter_slots(method, draft_grid) for method in methods)
    distributions = max(distribution_rows(method, grid) for method in methods)
    widest = widest_pass(prefix + grid[0] * grid[1])
    if distributions > widest:
        raise RequestError(
            "a method tries more tokens in a pass than the model takes",
            found=distributions,
            expected=f"at most {widest}, two for each position",
            fix="lower its tree_nodes, tree_width, length or jacobi_window",
        )
    return LaneSizes(
        queries=queries,
        target_slots=target,
        drafter_slots=drafter,
        distributions=distributions,
        eagle=any(isinstance(method, Chain) for method in methods),
        target=model_buffers(prefix, target, max(queries, distributions)),
        drafter=model_buffers(prefix, drafter, queries),
    )


def _with_length(model: str, buffers: ModelBuffers, length: int | str) -> ModelBuffers:
    if isinstance(length, str):
        return buffers
    if length < buffers.slots:
        raise RequestError(
            f"the {model}'s engine was compiled for a shorter cache than the methods need",
            found=f"{length} slots",
            expected=f"{buffers.slots} slots",
            fix=f"mulo-export build ... --{model}-slots {buffers.slots}, or open the pipeline with fewer methods",
        )
    return replace(buffers, slots=length)


def target_slots(method: Method, grid: Grid, ratio: int) -> int:
    """The most slots that `method` fills behind the condition in the target's log; `grid` is the target's."""
    if isinstance(method, MuloSD):
        return cache_slots.target_slots(method, grid, ratio)
    rows, cols = grid
    if isinstance(method, Chain) and method.tree != "chain":
        return rows * cols + max(method.most_drafted, method.most_read)
    if isinstance(method, PJD | AdaptiveZipAR):
        return rows * cols + distribution_rows(method, grid)
    return rows * cols + (rows if isinstance(method, ZipAR) else 0)


def drafter_slots(method: Method, grid: Grid) -> int:
    """The most slots that `method` fills behind the condition in the drafter's log; `grid` is the drafter's."""
    return cache_slots.drafter_slots(method, grid) if isinstance(method, MuloSD) else 0


def distribution_rows(method: Method, grid: Grid) -> int:
    """The most queries of a pass whose distributions `method` wants; `grid` is the target's."""
    if not isinstance(method, Sequential):
        return 0
    if isinstance(method, Jacobi):
        return min(method.jacobi_window, grid[0] * grid[1])
    if isinstance(method, AdaptiveZipAR):
        # Of every row: its last token, and where it has none, what stands in for that of the row above.
        return 2 * grid[0]
    if isinstance(method, PJD):
        # Of every row: what was decided since the pass before, a start, and the drafted tokens but the last.
        return min(grid[0] * (2 * method.jacobi_window + 1), 2 * grid[0] * grid[1])
    if method.tree == "chain":
        return method.length + 1
    # Behind a tree, what it decided is fed anew: as many tokens as it is deep, and one more.
    return max(method.most_drafted, method.tree_width) + 1 + method.length


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
    plan = plan_memory(manifest, lanes=lanes, images=images, drafter=sizes.drafter, target=sizes.target)
    # Those of the target, and those that the drafted tokens were drawn from.
    rows = 2 * query_bucket(sizes.distributions) if sizes.distributions else 0
    further = {"distributions": lanes * images * rows * manifest.vocabulary * _FLOAT}
    if sizes.eagle and manifest.eagle is not None:
        further["eagle"] = lanes * model_bytes(manifest, "eagle", images, sizes.target)
    return MemoryPlan({**plan.parts, **further})
