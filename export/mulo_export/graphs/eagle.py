"""The EAGLE-1 head of a target as a graph: foretold hidden states, and logits by the target's own projection.

The head is one layer of the target's kind (arXiv 2401.15077, section 4.1). It has a cache log of its own, with the same
inputs and meanings as a transformer's, and reads beside each token the hidden state of the token before.
"""

from __future__ import annotations

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.layers import (
    Step,
    attention,
    by_query,
    chosen_queries,
    feed_forward_block,
    give_logits,
    shared_step,
)
from mulo_export.graphs.precision import Weights

__all__ = ["eagle_graph"]


def eagle_graph(
    config: TransformerConfig, head: tuple[TensorFile, str], target: tuple[TensorFile, str]
) -> GraphBuilder:
    """The graph of a head.

    Inputs and outputs are those of `transformer_graph` for one layer; further ones are previous_hidden [B, T, D] F, the
    target's hidden state at the token before each query or what the head foretold of it, and the output hidden
    [B, T, D] F, what the head foretells at each query.

    Args:
        config: the head's shape; its rotary tables are the target's.
        head: the head's weights and what the graph calls their file.
        target: the target's, whose token embeddings and output projection the head shares.
    """
    graph = GraphBuilder("eagle")
    own, shared = Weights(graph, *head, typed_by="fc.weight"), Weights(graph, *target, typed_by="output.weight")
    condition = graph.input("cond_embeds", own.dtype, ["B", "C", config.dim])
    tokens = graph.input("token_ids", "int64", ["B", "Q"])
    step = shared_step(graph, own, config)
    rows = graph.input("logit_rows", "int64", ["B", "R"])
    before = graph.input("previous_hidden", own.dtype, ["B", "T", config.dim])
    embedded = graph.op("Concat", condition, graph.op("Gather", shared["tok_embeddings.weight"], tokens), axis=1)
    x = _merged(step, embedded, before)
    # What goes in is normalised already: the published head has no norm here, and none behind its layer.
    x = feed_forward_block(step, attention(step, x, x, 0), 0)
    hidden = by_query(step, x)
    graph.output("hidden", hidden, own.dtype, ["B", "T", config.dim])
    give_logits(step, graph.op("Gemm", chosen_queries(step, hidden, rows), shared["output.weight"], transB=1), rows)
    return graph


def _merged(step: Step, embedded: Value, before: Value) -> Value:
    """Fc over [embedding; hidden state before], as a flat stream."""
    graph, width = step.graph, 2 * step.config.dim
    pairs = graph.op("Concat", embedded, before, axis=-1)
    flat = graph.op("Reshape", pairs, graph.constant([-1, width], "int64"))
    return graph.op("Gemm", flat, step.weights["fc.weight"], step.weights["fc.bias"], transB=1)
