"""The sampler's graph: raw logits -> one token a row by inverse CDF, and the probability of a candidate and near it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.filters import probabilities

__all__ = ["sampler_graph"]

_COLDEST = 1e-5


def sampler_graph(neighbours: NDArray[np.int64], full: bool) -> GraphBuilder:
    """Declare the sampler that all models of a bundle share.

    One graph serves guidance on (B = 2N, conditional half first) and off (B = N): the null half is the last N rows,
    which without guidance are the conditional rows themselves. The order is LlamaGen's: guidance, temperature, then
    the filters of `probabilities`. A NaN in a row of logits makes all of the row's probabilities NaN and its token 0.

    Inputs:
        logits [B, R, V], candidate_ids [N, R], uniforms [N, R] in [0, 1), and the scalars guidance_scale,
        temperature (0: argmax), top_k (0: off), top_p (1: off) and pool_k.
    Outputs:
        token_ids [N, R]; candidate_prob [N, R]; candidate_mass [N, R], the probability of the `pool_k` codes nearest
        to the candidate, itself among them; with `full` also probs [N, R, V], from which the token is drawn.

    Args:
        neighbours: [V, K] the nearest codes of every code, itself first; K is the largest `pool_k`.
        full: whether to output `probs`.
    """
    vocabulary = neighbours.shape[0]
    graph = GraphBuilder("sampler_full" if full else "sampler")
    logits = graph.input("logits", "float32", ["B", "R", vocabulary])
    candidate_ids = graph.input("candidate_ids", "int64", ["N", "R"])
    uniforms = graph.input("uniforms", "float32", ["N", "R"])
    guidance_scale = graph.input("guidance_scale", "float32", [])
    temperature = graph.input("temperature", "float32", [])
    top_k = graph.input("top_k", "int64", [])
    top_p = graph.input("top_p", "float32", [])
    pool_k = graph.input("pool_k", "int64", [])

    guided = _guide(graph, logits, candidate_ids, guidance_scale)
    scores = graph.op("Div", guided, graph.op("Max", temperature, graph.constant(_COLDEST, "float32")))
    probs = probabilities(graph, scores, temperature, top_k, top_p, vocabulary)
    around = _around(graph, probs, candidate_ids, neighbours)

    graph.output("token_ids", _draw(graph, probs, uniforms, vocabulary), "int64", ["N", "R"])
    graph.output("candidate_prob", _first(graph, around), "float32", ["N", "R"])
    graph.output("candidate_mass", _mass(graph, around, pool_k, neighbours.shape[1]), "float32", ["N", "R"])
    if full:
        graph.output("probs", probs, "float32", ["N", "R", vocabulary])
    return graph


def _guide(graph: GraphBuilder, logits: Value, candidate_ids: Value, scale: Value) -> Value:
    """Null + (conditional - null) * scale; both slices are the same rows where there is no null half."""
    images, rows = graph.op("Shape", candidate_ids, start=0, end=1), graph.constant([0], "int64")
    conditional = graph.op("Slice", logits, graph.constant([0], "int64"), images, rows)
    null = graph.op("Slice", logits, graph.op("Neg", images), graph.constant([2**31 - 1], "int64"), rows)
    return graph.op("Add", null, graph.op("Mul", graph.op("Sub", conditional, null), scale))


def _draw(graph: GraphBuilder, probs: Value, uniforms: Value, vocabulary: int) -> Value:
    """The first token whose cumulative probability exceeds the uniform number times the total.

    The total is the sum's own last term, which a float32 below 1 always scales to less: some token exceeds it, and
    the first one that does has added to the sum, so that no token of probability zero is ever drawn.
    """
    cumulative = graph.op("CumSum", probs, graph.constant(-1, "int64"))
    total = graph.op("Gather", cumulative, graph.constant(vocabulary - 1, "int64"), axis=-1)
    threshold = graph.op("Unsqueeze", graph.op("Mul", uniforms, total), graph.constant([-1], "int64"))
    beyond = graph.cast(graph.op("Greater", cumulative, threshold), "float32")
    return graph.op("ArgMax", beyond, axis=-1, keepdims=0, name="token_ids")


def _around(graph: GraphBuilder, probs: Value, candidate_ids: Value, neighbours: NDArray[np.int64]) -> Value:
    """Probabilities of the codes nearest to every candidate, itself first; [N, R, K]."""
    nearest = graph.op("Gather", graph.constant(neighbours, "int64"), candidate_ids)
    return graph.op("GatherElements", probs, nearest, axis=-1)


def _first(graph: GraphBuilder, around: Value) -> Value:
    return graph.op("Gather", around, graph.constant(0, "int64"), axis=-1, name="candidate_prob")


def _mass(graph: GraphBuilder, around: Value, pool_k: Value, largest: int) -> Value:
    """Sum over the first `pool_k`, by a mask, so that no shape depends on a request.

    A product of matrices would do it in one node, but a GPU may round its terms to ten bits.
    """
    within = graph.op("Less", graph.constant(np.arange(largest), "int64"), pool_k)
    pooled = graph.op("Mul", around, graph.cast(within, "float32"))
    return graph.op("ReduceSum", pooled, graph.constant([-1], "int64"), keepdims=0, name="candidate_mass")
