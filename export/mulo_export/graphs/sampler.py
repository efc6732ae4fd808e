"""The sampler's graph: raw logits -> one token a row by inverse CDF, and the probability of a candidate and near it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_export.graphs.builder import GraphBuilder, Value

__all__ = ["SORT_LIMIT", "sampler_graph"]

SORT_LIMIT = 3840
"""Largest K of TensorRT's TopK; nothing longer is sorted."""
_BISECTIONS = 28
_LOG_RANGE = 104.0
_COLDEST = 1e-5


def sampler_graph(neighbours: NDArray[np.int64], full: bool) -> GraphBuilder:
    """Declare the sampler that all models of a bundle share.

    One graph serves guidance on (B = 2N, conditional half first) and off (B = N): the last N rows are the null half or,
    without guidance, the conditional rows themselves. The order is LlamaGen's: guidance, temperature, top-k with its
    ties, top-p, softmax; `temperature` 0 is the argmax, its first one in a tie. The drawn token is the first whose
    cumulative probability exceeds the uniform number times the total, so that it never has probability zero.
    A NaN among a row's logits makes the row's `candidate_prob` NaN.

    Args:
        neighbours: [V, K] the nearest codes of every code, itself first; K is the largest `pool_k`.
        full: also give the output `probs` [N, R, V], the distribution that the token is drawn from.
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
    probs = _distribution(graph, scores, temperature, top_k, top_p, vocabulary)
    token_ids = _draw(graph, probs, uniforms, vocabulary)
    candidate_prob, candidate_mass = _pool(graph, probs, candidate_ids, pool_k, neighbours)

    graph.output("token_ids", token_ids, "int64", ["N", "R"])
    graph.output("candidate_prob", candidate_prob, "float32", ["N", "R"])
    graph.output("candidate_mass", candidate_mass, "float32", ["N", "R"])
    if full:
        graph.output("probs", probs, "float32", ["N", "R", vocabulary])
    return graph


def _guide(graph: GraphBuilder, logits: Value, candidate_ids: Value, scale: Value) -> Value:
    """Null + (conditional - null) * scale; without a null half both slices are the same rows."""
    images = graph.op("Shape", candidate_ids, start=0, end=1)
    first, last, axis = graph.constant([0], "int64"), graph.constant([2**31 - 1], "int64"), graph.constant([0], "int64")
    conditional = graph.op("Slice", logits, first, images, axis)
    null = graph.op("Slice", logits, graph.op("Neg", images), last, axis)
    return graph.op("Add", null, graph.op("Mul", graph.op("Sub", conditional, null), scale))


def _distribution(
    graph: GraphBuilder, scores: Value, temperature: Value, top_k: Value, top_p: Value, vocabulary: int
) -> Value:
    """Softmax alone where every filter is off, which costs one `If`."""
    greedy = graph.op("LessOrEqual", temperature, graph.constant(0, "float32"))
    few = graph.op("Greater", top_k, graph.constant(0, "int64"))
    nucleus = graph.op("Less", top_p, graph.constant(1, "float32"))
    shaped = graph.op("Or", greedy, graph.op("Or", few, nucleus))

    argmax = GraphBuilder("argmax")
    _result(argmax, _one_hot(argmax, scores, vocabulary), vocabulary)
    filtered = GraphBuilder("filtered")
    _result(filtered, _filter(filtered, scores, few, top_k, nucleus, top_p, vocabulary), vocabulary)
    special = GraphBuilder("special")
    chosen = special.op("If", greedy, then_branch=argmax.graph(), else_branch=filtered.graph())
    _result(special, chosen, vocabulary)
    plain = GraphBuilder("plain")
    _result(plain, plain.op("Softmax", scores, axis=-1), vocabulary)
    return graph.op("If", shaped, then_branch=special.graph(), else_branch=plain.graph())


def _result(branch: GraphBuilder, value: Value, vocabulary: int) -> None:
    branch.output(value, value, "float32", ["N", "R", vocabulary])


def _one_hot(graph: GraphBuilder, scores: Value, vocabulary: int) -> Value:
    best = graph.op("ArgMax", scores, axis=-1, keepdims=0)
    return graph.op("OneHot", best, graph.constant(vocabulary, "int64"), graph.constant([0, 1], "float32"), axis=-1)


def _filter(
    graph: GraphBuilder, scores: Value, few: Value, top_k: Value, nucleus: Value, top_p: Value, vocabulary: int
) -> Value:
    """Top-k on the scores, then top-p on what is left."""
    largest, every = GraphBuilder("largest"), GraphBuilder("every")
    _result(largest, _keep_largest(largest, scores, top_k, vocabulary), vocabulary)
    _result(every, every.op("Identity", scores), vocabulary)
    kept = graph.op("If", few, then_branch=largest.graph(), else_branch=every.graph())
    probs = graph.op("Softmax", kept, axis=-1)

    core, whole = GraphBuilder("core"), GraphBuilder("whole")
    inside = _sorted_nucleus if vocabulary <= SORT_LIMIT else _bisected_nucleus
    remaining = core.op("Where", inside(core, probs, top_p, vocabulary), probs, core.constant(0, "float32"))
    total = core.op("ReduceSum", remaining, core.constant([-1], "int64"))
    _result(core, core.op("Div", remaining, total), vocabulary)
    _result(whole, whole.op("Identity", probs), vocabulary)
    return graph.op("If", nucleus, then_branch=core.graph(), else_branch=whole.graph())


def _keep_largest(graph: GraphBuilder, scores: Value, top_k: Value, vocabulary: int) -> Value:
    """Drop the scores strictly below the k-th largest; equal ones stay."""
    count = graph.op("Min", top_k, graph.constant(vocabulary, "int64"))
    count = graph.op("Reshape", count, graph.constant([1], "int64"))
    values, _ = graph.multi("TopK", scores, count, names=["largest_scores", "largest_ids"], axis=-1, sorted=0)
    limit = graph.op("ReduceMin", values, graph.constant([-1], "int64"))
    return graph.op("Where", graph.op("Less", scores, limit), graph.constant(-np.inf, "float32"), scores)


def _sorted_nucleus(graph: GraphBuilder, probs: Value, top_p: Value, vocabulary: int) -> Value:
    """True where the tokens that are strictly likelier hold at most `top_p`."""
    count = graph.constant([vocabulary], "int64")
    ranked, _ = graph.multi("TopK", probs, count, names=["ranked_probs", "ranked_ids"], axis=-1)
    before = graph.op("CumSum", ranked, graph.constant(-1, "int64"), exclusive=1)
    kept = graph.op("Where", graph.op("LessOrEqual", before, top_p), ranked, graph.constant(2, "float32"))
    return graph.op("GreaterOrEqual", probs, graph.op("ReduceMin", kept, graph.constant([-1], "int64")))


def _bisected_nucleus(graph: GraphBuilder, probs: Value, top_p: Value, vocabulary: int) -> Value:
    """The same without a sort: bisect the logarithm of the smallest probability kept down to a float's resolution."""
    axis, half = graph.constant([-1], "int64"), graph.constant(0.5, "float32")
    logs = graph.op("Log", probs)
    high = graph.op("ReduceMax", logs, axis)
    low = graph.op("Sub", high, graph.constant(_LOG_RANGE, "float32"))
    for _ in range(_BISECTIONS):
        middle = graph.op("Mul", graph.op("Add", low, high), half)
        above = graph.op("Where", graph.op("Greater", logs, middle), probs, graph.constant(0, "float32"))
        fits = graph.op("LessOrEqual", graph.op("ReduceSum", above, axis), top_p)
        low, high = graph.op("Where", fits, low, middle), graph.op("Where", fits, middle, high)
    return graph.op("Greater", logs, low)


def _draw(graph: GraphBuilder, probs: Value, uniforms: Value, vocabulary: int) -> Value:
    """The first token whose cumulative probability exceeds the uniform number times the total."""
    cumulative = graph.op("CumSum", probs, graph.constant(-1, "int64"))
    total = graph.op("Gather", cumulative, graph.constant(vocabulary - 1, "int64"), axis=-1)
    target = graph.op("Unsqueeze", graph.op("Mul", uniforms, total), graph.constant([-1], "int64"))
    beyond = graph.op("Cast", graph.op("Greater", cumulative, target), to=1)
    return graph.op("ArgMax", beyond, axis=-1, keepdims=0, name="token_ids")


def _pool(
    graph: GraphBuilder, probs: Value, candidate_ids: Value, pool_k: Value, neighbours: NDArray[np.int64]
) -> tuple[Value, Value]:
    """The probability of every candidate and of its `pool_k` nearest codes together."""
    table = graph.constant(neighbours, "int64")
    around = graph.op("GatherElements", probs, graph.op("Gather", table, candidate_ids), axis=-1)
    itself = graph.op("Gather", around, graph.constant(0, "int64"), axis=-1, name="candidate_prob")
    ranks = graph.constant(np.arange(neighbours.shape[1]), "int64")
    near = graph.op("Cast", graph.op("Less", ranks, pool_k), to=1)
    return itself, graph.op("MatMul", around, near, name="candidate_mass")
