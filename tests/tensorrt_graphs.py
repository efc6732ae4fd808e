"""Small graphs of what TensorRT takes and what it refuses, and their build by the builder that needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from mulo_engines.child import run_in_child
from mulo_engines.engine import TensorSpec
from mulo_engines.signature import Signature
from mulo_engines.tensorrt.build import BuildJob, BuildResult, BuildSettings, build_plan
from mulo_engines.tensorrt.profiles import Profile, Range
from mulo_export.graphs.builder import GraphBuilder, Value, signature

__all__ = ["attention_graph", "build"]


def build(
    graph: GraphBuilder, folder: Path, sizes: Mapping[str, Range], expected: Signature | None = None
) -> BuildResult:
    """Build `graph` with one profile of these `sizes`, expecting the inputs and outputs that it declares."""
    path = folder / "graph.onnx"
    graph.save(path)
    job = BuildJob(
        settings=BuildSettings("tensorrt-rtx"),
        graph="graph",
        model=path.read_bytes(),
        path=path,
        signature=_declared(graph, path) if expected is None else expected,
        profiles=(Profile("all", sizes),),
        plan=folder / "graph.plan",
    )
    return run_in_child("building a graph", partial(build_plan, job), lambda _: None)


def attention_graph(dtype: str, slots: int | str = 32, *, head_dim: int = 64, valid: bool = False) -> GraphBuilder:
    """One step of attention over a cache; `valid` adds the operand that TensorRT drops."""
    graph = GraphBuilder("attention")
    shape = ["B", 2, slots, head_dim]
    query = graph.input("query", dtype, ["B", 2, "T", head_dim])
    key = graph.input("key", dtype, ["B", 2, "T", head_dim])
    index = graph.input("write_index", "int64", ["B"])
    mask = graph.input("attn_mask", "bool", ["B", 1, "T", slots])
    cache = graph.input("k_cache.0", dtype, shape)
    whole = graph.op("TensorScatter", cache, key, index, name="k_cache_out.0", axis=-2, mode="linear")
    operands: list[Value | None] = [query, whole, whole, mask]
    if valid:
        operands += [None, None, graph.input("valid_slots", "int64", ["B"])]
    attended = graph.op("Attention", *operands, name="attended", scale=1.0)
    graph.output("attended", attended, dtype, ["B", 2, "T", head_dim])
    graph.output("k_cache_out.0", whole, dtype, shape)
    return graph


def _declared(graph: GraphBuilder, path: Path) -> Signature:
    outputs = {output.name for output in graph.model().graph.output}
    specs = [
        TensorSpec(name, np.dtype("uint16" if dtype == "bfloat16" else dtype), shape)
        for name, (dtype, shape) in signature(path).items()
    ]
    return Signature(
        tuple(spec for spec in specs if spec.name not in outputs), tuple(spec for spec in specs if spec.name in outputs)
    )
