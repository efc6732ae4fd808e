"""From scores to the distribution that a token is drawn from: softmax, and what argmax, top-k and top-p leave of it."""

from __future__ import annotations

import numpy as np

from mulo_export.graphs.builder import GraphBuilder, Value

__all__ = ["probabilities"]

# exp(-104) is below the smallest float32, and 28 halvings of 104 reach the spacing of float32 at 4.
_SCORE_RANGE = 104.0
_HALVINGS = 28


def probabilities(
    graph: GraphBuilder, scores: Value, temperature: Value, top_k: Value, top_p: Value, vocabulary: int
) -> Value:
    """Declare scores [N, R, V] -> probabilities [N, R, V]; filters that are all off cost one `If` together.

    In this order (LlamaGen, generate.py): `temperature` 0 leaves the largest score alone, the first in a tie;
    `top_k` leaves what is not below the k-th largest score; `top_p` leaves the tokens that strictly likelier ones hold
    no more than `top_p` before, so that the first token to cross it stays. Equal scores stay or go together.
    `top_k` 0 and `top_p` 1 are off. TensorRT sorts at most 3840 values: `top_k` ends there, and nothing else sorts.
    """
    greedy = graph.op("LessOrEqual", temperature, graph.constant(0, "float32"))
    few = graph.op("Greater", top_k, graph.constant(0, "int64"))
    nucleus = graph.op("Less", top_p, graph.constant(1, "float32"))

    filtered = GraphBuilder("filtered")
    probs = filtered.op("Softmax", scores, axis=-1)
    probs = _filter(filtered, greedy, _largest(scores, probs, vocabulary), probs, vocabulary)
    probs = _filter(filtered, few, _top_k(scores, probs, top_k, vocabulary), probs, vocabulary)
    probs = _filter(filtered, nucleus, _top_p(scores, probs, top_p, vocabulary), probs, vocabulary)
    _leave(filtered, probs, vocabulary)
    whole = GraphBuilder("whole")
    _leave(whole, whole.op("Softmax", scores, axis=-1), vocabulary)
    any_filter = graph.op("Or", greedy, graph.op("Or", few, nucleus))
    return graph.op("If", any_filter, then_branch=filtered.graph(), else_branch=whole.graph())


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
    count = branch.op("Min", top_k, branch.constant(vocabulary, "int64"))
    count = branch.op("Unsqueeze", count, branch.constant([0], "int64"))
    names = ["largest_scores", "largest_ids"]
    largest, _ = branch.multi("TopK", scores, count, names=names, axis=-1, sorted=0)
    kept = branch.op("GreaterOrEqual", scores, branch.op("ReduceMin", largest, branch.constant([-1], "int64")))
    return _keep(branch, probs, kept, vocabulary)


def _top_p(scores: Value, probs: Value, top_p: Value, vocabulary: int) -> GraphBuilder:
    """Bisect for the largest score whose strictly larger ones hold more than `top_p`; what exceeds it stays."""
    branch = GraphBuilder("top_p_branch")
    last, half = branch.constant([-1], "int64"), branch.constant(0.5, "float32")
    high = branch.op("ReduceMax", scores, last)
    low = branch.op("Sub", high, branch.constant(_SCORE_RANGE, "float32"))
    for _ in range(_HALVINGS):
        middle = branch.op("Mul", branch.op("Add", low, high), half)
        above = branch.op("Mul", probs, branch.cast(branch.op("Greater", scores, middle), "float32"))
        exceeds = branch.op("Greater", branch.op("ReduceSum", above, last), top_p)
        low, high = branch.op("Where", exceeds, middle, low), branch.op("Where", exceeds, high, middle)
    return _keep(branch, probs, branch.op("Greater", scores, low), vocabulary)


def _keep(branch: GraphBuilder, probs: Value, kept: Value, vocabulary: int) -> GraphBuilder:
    """Drop the rest and rescale to a sum of 1. A product, not a selection: NaN must not be dropped."""
    remaining = branch.op("Mul", probs, branch.cast(kept, "float32"))
    total = branch.op("ReduceSum", remaining, branch.constant([-1], "int64"))
    _leave(branch, branch.op("Div", remaining, total), vocabulary)
    return branch


def _leave(branch: GraphBuilder, probs: Value, vocabulary: int) -> None:
    branch.output(probs, probs, "float32", ["N", "R", vocabulary])
