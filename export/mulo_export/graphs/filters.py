"""From scores to the distribution that a token is drawn from: softmax, and what argmax, top-k and top-p leave of it.

A filter that is off costs an `If`, or a `Loop` of no trips. NVIDIA's builder takes neither inside the other, nor a
`TopK` inside an `If` whose K is not a constant, and needs minutes for a loop that is unrolled: hence this form, which
also keeps every shape independent of what a request asks for.
"""

from __future__ import annotations

import numpy as np

from mulo_export.graphs.builder import GraphBuilder, Value

__all__ = ["TOP_K_LIMIT", "probabilities"]

TOP_K_LIMIT = 3840
"""The longest list that TensorRT sorts, hence the largest `top_k`."""

# exp(-104) is below the smallest float32, and 28 halvings of 104 reach the spacing of float32 at 4.
_SCORE_RANGE = 104.0
_HALVINGS = 28


def probabilities(
    graph: GraphBuilder, scores: Value, temperature: Value, top_k: Value, top_p: Value, vocabulary: int
) -> Value:
    """Declare scores [N, R, V] -> probabilities [N, R, V].

    In this order (LlamaGen, generate.py): `temperature` 0 leaves the largest score alone, the first in a tie;
    `top_k` leaves what is not below the k-th largest score; `top_p` leaves the tokens that strictly likelier ones hold
    no more than `top_p` before, so that the first token to cross it stays. Equal scores stay or go together.
    `top_k` 0 and `top_p` 1 are off; a `top_k` above `TOP_K_LIMIT` counts as that.
    """
    probs = graph.op("Softmax", scores, axis=-1)
    greedy = graph.op("LessOrEqual", temperature, graph.constant(0, "float32"))
    probs = _filter(graph, greedy, _largest(scores, probs, vocabulary), probs, vocabulary)
    few = graph.op("Greater", top_k, graph.constant(0, "int64"))
    probs = _filter(graph, few, _top_k(scores, probs, top_k, vocabulary), probs, vocabulary)
    nucleus = graph.op("Less", top_p, graph.constant(1, "float32"))
    bound = _nucleus_bound(graph, scores, probs, top_p, nucleus)
    return _filter(graph, nucleus, _above(scores, probs, bound, vocabulary), probs, vocabulary)


def _filter(graph: GraphBuilder, condition: Value, on: GraphBuilder, probs: Value, vocabulary: int) -> Value:
    off = GraphBuilder(f"without_{condition}")
    _leave(off, off.op("Identity", probs), vocabulary)
    return graph.op("If", condition, then_branch=on.graph(), else_branch=off.graph())


def _largest(scores: Value, probs: Value, vocabulary: int) -> GraphBuilder:
    branch = GraphBuilder("largest")
    best = branch.op("ArgMax", scores, axis=-1)
    kept = branch.op("Equal", branch.constant(np.arange(vocabulary), "int64"), best)
    return _keep(branch, probs, kept, vocabulary)


def _top_k(scores: Value, probs: Value, top_k: Value, vocabulary: int) -> GraphBuilder:
    branch = GraphBuilder("top_k_branch")
    longest = min(vocabulary, TOP_K_LIMIT)
    names = ["ranked_scores", "ranked_ids"]
    ranked, _ = branch.multi("TopK", scores, branch.constant([longest], "int64"), names=names, axis=-1)
    rank = branch.op("Sub", branch.op("Min", top_k, branch.constant(longest, "int64")), branch.constant([1], "int64"))
    kept = branch.op("GreaterOrEqual", scores, branch.op("Gather", ranked, rank, axis=-1))
    return _keep(branch, probs, kept, vocabulary)


def _above(scores: Value, probs: Value, bound: Value, vocabulary: int) -> GraphBuilder:
    branch = GraphBuilder("top_p_branch")
    return _keep(branch, probs, branch.op("Greater", scores, bound), vocabulary)


def _nucleus_bound(graph: GraphBuilder, scores: Value, probs: Value, top_p: Value, nucleus: Value) -> Value:
    """The largest score [N, R, 1] above which tokens hold more than `top_p`, by bisection instead of a sort."""
    highest = graph.op("ReduceMax", scores, graph.constant([-1], "int64"))
    lowest = graph.op("Sub", highest, graph.constant(_SCORE_RANGE, "float32"))
    trips = graph.op("Mul", graph.cast(nucleus, "int64"), graph.constant(_HALVINGS, "int64"))
    body = _halving(scores, probs, top_p).graph()
    return graph.multi("Loop", trips, None, lowest, highest, names=["nucleus_low", "nucleus_high"], body=body)[0]


def _halving(scores: Value, probs: Value, top_p: Value) -> GraphBuilder:
    """Halve the interval from `low`, above which tokens hold more than `top_p`, to `high`, above which they do not."""
    body = GraphBuilder("halving")
    body.input("trip", "int64", [])
    body.input("goes_on", "bool", [])
    low, high = (body.input(name, "float32", ["N", "R", 1]) for name in ("low", "high"))
    middle = body.op("Mul", body.op("Add", low, high), body.constant(0.5, "float32"))
    above = body.op("Mul", probs, body.cast(body.op("Greater", scores, middle), "float32"))
    exceeds = body.op("Greater", body.op("ReduceSum", above, body.constant([-1], "int64")), top_p)
    always = body.op("Identity", body.constant(np.array(True)))
    body.output(always, always, "bool", [])
    for bound in (body.op("Where", exceeds, middle, low), body.op("Where", exceeds, high, middle)):
        body.output(bound, bound, "float32", ["N", "R", 1])
    return body


def _keep(branch: GraphBuilder, probs: Value, kept: Value, vocabulary: int) -> GraphBuilder:
    """Drop the rest and rescale to a sum of 1. A product, not a selection: NaN must not be dropped."""
    remaining = branch.op("Mul", probs, branch.cast(kept, "float32"))
    total = branch.op("ReduceSum", remaining, branch.constant([-1], "int64"))
    _leave(branch, branch.op("Div", remaining, total), vocabulary)
    return branch


def _leave(branch: GraphBuilder, probs: Value, vocabulary: int) -> None:
    branch.output(probs, probs, "float32", ["N", "R", vocabulary])
