"""One graph, of LlamaGen or Tar, that prefills, decodes, verifies and resamples: T queries against a cache of S slots.

A slot has no meaning of its own. Positions (`position_ids`), slots (`write_index`) and visibility (`attn_mask`) are
inputs, so every order of generation is the same graph.
"""

from __future__ import annotations

from mulo_export.checkpoints.ar_dtok import POSITIONS
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
    linear,
    norm,
    shared_step,
)
from mulo_export.graphs.precision import Weights

__all__ = ["transformer_graph"]


def transformer_graph(
    config: TransformerConfig, file: TensorFile, location: str, *, hidden: bool = False
) -> GraphBuilder:
    """The graph of the transformer whose weights lie in `file`, called `location` beside the graph.

    Activations and caches have the type of the token embedding, F; norms and rotations compute in float32 whatever
    it is, and logits leave as float32.

    Inputs, for B sequences and T = C + Q queries:
        cond_embeds [B, C, D] F, token_ids [B, Q], position_ids [B, T], write_index [B], attn_mask [M, 1, T, S] bool
        with M = B or 1, logit_rows [B, R], and per layer k_cache and v_cache [B, H, S, cache_width] F.
    Outputs:
        logits [B, R, V] float32, and per layer k_cache_out and v_cache_out, to be bound to the inputs' buffers. With
        `hidden` also hidden [B, T, D] F, the input of the output projection at every query, not only at those that get
        logits: a head on top of this model reads all of the prefix.
    """
    graph = GraphBuilder("transformer")
    weights = Weights(graph, file, location, typed_by="tok_embeddings.weight")
    condition = graph.input("cond_embeds", weights.dtype, ["B", "C", config.dim])
    tokens = graph.input("token_ids", "int64", ["B", "Q"])
    step = shared_step(graph, weights, config)
    rows = graph.input("logit_rows", "int64", ["B", "R"])
    x = _embedding(step, condition, tokens)
    for layer in range(config.layers):
        x = attention(step, norm(step, x, f"layers.{layer}.attention_norm.weight"), x, layer)
        x = feed_forward_block(step, x, layer)
    if hidden:
        _logits_and_hidden(step, x, rows)
    else:
        _logits(step, x, rows)
    return graph


def _embedding(step: Step, condition: Value, tokens: Value) -> Value:
    embedded = step.graph.op("Gather", step.weights["tok_embeddings.weight"], tokens, axis=0)
    sequence = step.graph.op("Concat", condition, embedded, axis=1)
    if step.config.position_rows is not None:
        sequence = step.graph.op("Add", sequence, _absolute_positions(step, step.config.position_rows))
    return step.graph.op("Reshape", sequence, step.flat_shape)


def _absolute_positions(step: Step, rows: int) -> Value:
    """What the table holds for every position, [1, B, T, D].

    The last image token has no row, because published code never feeds it. A pass that verifies a whole block does,
    and nothing reads what becomes of it.
    """
    last = step.graph.constant(rows - 1, "int64")
    within = step.graph.op("Min", step.positions, last)
    return step.graph.op("Gather", step.weights[POSITIONS], within, axis=1)


def _logits(step: Step, x: Value, rows: Value) -> None:
    chosen = chosen_queries(step, by_query(step, x), rows)
    give_logits(step, linear(step, norm(step, chosen, "norm.weight"), "output.weight"), rows)


def _logits_and_hidden(step: Step, x: Value, rows: Value) -> None:
    hidden = by_query(step, norm(step, x, "norm.weight"))
    step.graph.output("hidden", hidden, step.weights.dtype, ["B", "T", step.config.dim])
    give_logits(step, linear(step, chosen_queries(step, hidden, rows), "output.weight"), rows)
