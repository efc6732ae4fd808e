"""The sizes at which every graph of a bundle is timed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from mulo_engines.buckets import query_buckets
from mulo_engines.cache_slots import model_buffers
from mulo_engines.cache_tensors import cache_spec
from mulo_engines.engine import Engine
from mulo_engines.manifest import Manifest
from mulo_runtime.defaults import default_sampling

__all__ = ["PROFILED_GRAPHS", "Case", "cases_of", "extremes"]

PROFILED_GRAPHS = (
    "target",
    "drafter",
    "sampler",
    "target.condition",
    "drafter.condition",
    "upsampler",
    "downsampler",
    "decoder",
)
"""The graphs that the loop runs, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Case:
    """One size of one graph.

    Attributes:
        graph: the graph's name.
        label: what a table calls the size.
        sizes: the value of every symbol of the graph's signature.
    """

    graph: str
    label: str
    sizes: Mapping[str, int]

    @property
    def queries(self) -> int:
        """Queries of the pass; 0 for a graph that has none."""
        return self.sizes.get("T", self.sizes.get("R", 0))


def extremes(cases: Sequence[Case], graph: str) -> list[Case]:
    """The smallest and the largest of the `cases` of `graph`, with guidance where it is timed with it."""
    own = [case for case in cases if case.graph == graph]
    alike = [case for case in own if case.sizes.get("B") == own[0].sizes.get("B")]
    ends = [choose(alike, key=attrgetter("queries")) for choose in (min, max)]
    return ends[: len({case.label for case in ends})]


def cases_of(manifest: Manifest, engine: Engine, queries: int) -> list[Case]:
    """The sizes at which a graph is timed, for one image.

    Transformers are timed with their condition and with every bucket of queries, with guidance and without; every query
    gets logits, as in verification. The cache is as long as an image needs, or as it was compiled.

    Args:
        manifest: what the bundle holds.
        engine: one of `PROFILED_GRAPHS`, loaded.
        queries: the largest number of queries of one pass.
    """
    graph = engine.name
    if graph in ("target", "drafter"):
        return list(_transformer_cases(manifest, engine, queries))
    if graph == "sampler":
        return list(_sampler_cases(manifest, queries))
    return [Case(graph, "one image", {"N": 1, "B": 2, **_grids(manifest, graph)})]


def _transformer_cases(manifest: Manifest, engine: Engine, queries: int) -> Iterator[Case]:
    graph, prefix = engine.name, manifest.condition.length
    model = manifest.target if graph == "target" else manifest.drafter
    tokens = model.rows * model.cols
    buffers = model_buffers(prefix, tokens, min(queries, tokens))
    compiled = cache_spec(engine.inputs).shape[2]
    slots = compiled if isinstance(compiled, int) else buffers.slots
    for batch in _batches(manifest):
        shared = {"B": batch, "M": 1, "S": slots}
        yield Case(graph, f"condition, B {batch}", {**shared, "C": prefix, "Q": 0, "T": prefix, "R": 1})
        for bucket in query_buckets(buffers.queries):
            yield Case(graph, f"T {bucket}, B {batch}", {**shared, "C": 0, "Q": bucket, "T": bucket, "R": bucket})


def _sampler_cases(manifest: Manifest, queries: int) -> Iterator[Case]:
    most = min(queries, manifest.target.rows * manifest.target.cols)
    for batch in _batches(manifest):
        for bucket in query_buckets(most):
            yield Case("sampler", f"R {bucket}, B {batch}", {"B": batch, "N": 1, "R": bucket})


def _batches(manifest: Manifest) -> tuple[int, ...]:
    """B of one image: with its null half where the bundle guides, and without."""
    return (2, 1) if default_sampling(manifest).guided else (1,)


def _grids(manifest: Manifest, graph: str) -> Mapping[str, int]:
    """Rows and columns of the grids and of the image."""
    low, high, pixels = manifest.drafter, manifest.target, manifest.pixels_per_token
    if graph in ("upsampler", "downsampler"):
        return {"h": low.rows, "w": low.cols, "rh": high.rows, "rw": high.cols}
    if graph == "decoder":
        return {"h": high.rows, "w": high.cols, "H": high.rows * pixels, "W": high.cols * pixels}
    return {}
