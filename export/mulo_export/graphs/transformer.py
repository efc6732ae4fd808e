"""One graph, of LlamaGen or Tar, that prefills, decodes, verifies and resamples: T queries against a cache of S slots.

A slot has no meaning of its own. Positions (`position_ids`), slots (`write_index`) and visibility (`attn_mask`) are
inputs, so every order of generation is the same graph. The residual stream is flat, [B * T, D]: linear layers are
then `Gemm`, which reads weights of shape [out, in] where they lie and adds the residual itself; quantized weights bring
operators of their own.

Keys and queries are both kept divided by head_dim ** 1/4, so that attention itself need not scale: ONNX Runtime then
takes its matrix-vector path for a single query, and TensorRT does not rescale the whole key cache at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mulo_export.checkpoints.ar_dtok import POSITIONS
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.precision import Weights
from mulo_export.graphs.rope import rope_tables

__all__ = ["transformer_graph"]


@dataclass(frozen=True, slots=True)
class _Step:
    """What every layer of one step shares.

    Attributes:
        rotary: tables of cosines and sines; None where the positions are in the input already.
        head_shape: the shape [B, T, 3 * heads, head_dim].
        flat_shape: the shape [B * T, D].
    """

    graph: GraphBuilder
    weights: Weights
    config: TransformerConfig
    positions: Value
    write_index: Value
    mask: Value
    rotary: tuple[Value, Value] | None
    head_shape: Value
    flat_shape: Value


def transformer_graph(config: TransformerConfig, file: TensorFile, location: str) -> GraphBuilder:
    """The graph of the transformer whose weights lie in `file`, called `location` beside the graph.

    Activations and caches have the type of the token embedding, F; norms and rotations compute in float32 whatever
    it is, and logits leave as float32.

    Inputs, for B sequences and T = C + Q queries:
        cond_embeds [B, C, D] F, token_ids [B, Q], position_ids [B, T], write_index [B], attn_mask [M, 1, T, S] bool
        with M = B or 1, logit_rows [B, R], and per layer k_cache and v_cache [B, H, S, cache_width] F.
    Outputs:
        logits [B, R, V] float32, and per layer k_cache_out and v_cache_out, to be bound to the inputs' buffers.
    """
    graph = GraphBuilder("transformer")
    weights = Weights(graph, file, location, typed_by="tok_embeddings.weight")
    condition = graph.input("cond_embeds", weights.dtype, ["B", "C", config.dim])
    tokens = graph.input("token_ids", "int64", ["B", "Q"])
    step = _shared(graph, weights, config)
    rows = graph.input("logit_rows", "int64", ["B", "R"])
    x = _embedding(step, condition, tokens)
    for layer in range(config.layers):
        x = _attention_block(step, x, layer)
        x = _feed_forward_block(step, x, layer)
    _logits(step, x, rows)
    return graph


def _shared(graph: GraphBuilder, weights: Weights, config: TransformerConfig) -> _Step:
    positions = graph.input("position_ids", "int64", ["B", "T"])
    rotary = None if config.position_rows is not None else rope_tables(config)
    heads = graph.constant([3 * config.heads, config.head_dim], "int64")
    return _Step(
        graph,
        weights,
        config,
        positions=positions,
        write_index=graph.input("write_index", "int64", ["B"]),
        mask=graph.input("attn_mask", "bool", ["M", 1, "T", "S"]),
        rotary=None if rotary is None else (graph.constant(rotary[0]), graph.constant(rotary[1])),
        head_shape=graph.op("Concat", graph.op("Shape", positions), heads, axis=0),
        flat_shape=graph.constant([-1, config.dim], "int64"),
    )


def _embedding(step: _Step, condition: Value, tokens: Value) -> Value:
    embedded = step.graph.op("Gather", step.weights["tok_embeddings.weight"], tokens, axis=0)
    sequence = step.graph.op("Concat", condition, embedded, axis=1)
    if step.config.position_rows is not None:
        sequence = step.graph.op("Add", sequence, _absolute_positions(step, step.config.position_rows))
    return step.graph.op("Reshape", sequence, step.flat_shape)


def _absolute_positions(step: _Step, rows: int) -> Value:
    """What the table holds for every position, [1, B, T, D].

    The last image token has no row, because published code never feeds it. A pass that verifies a whole block does,
    and nothing reads what becomes of it.
    """
    last = step.graph.constant(rows - 1, "int64")
    within = step.graph.op("Min", step.positions, last)
    return step.graph.op("Gather", step.weights[POSITIONS], within, axis=1)


def _attention_block(step: _Step, x: Value, layer: int) -> Value:
    graph = step.graph
    normed = _norm(step, x, f"layers.{layer}.attention_norm.weight")
    projected = step.weights.linear(normed, f"layers.{layer}.attention.wqkv.weight")
    query, key, value = _heads(step, projected)
    keys = _scatter(step, f"k_cache.{layer}", f"k_cache_out.{layer}", key)
    values = _scatter(step, f"v_cache.{layer}", f"v_cache_out.{layer}", value)
    attended = graph.op("Attention", query, keys, values, step.mask, scale=1.0)
    by_token = graph.op("Transpose", attended, perm=[0, 2, 1, 3])
    flat = graph.op("Reshape", _unpadded(step, by_token), step.flat_shape)
    return step.weights.linear(flat, f"layers.{layer}.attention.wo.weight", residual=x)


def _heads(step: _Step, projected: Value) -> tuple[Value, Value, Value]:
    """Queries and keys, turned to their positions, and values, each [B, H, T, cache_width]."""
    graph, heads = step.graph, step.config.heads
    by_token = _padded(step, graph.op("Reshape", projected, step.head_shape))
    by_head = graph.op("Transpose", by_token, perm=[0, 2, 1, 3])
    together, value = graph.split(by_head, [2 * heads, heads], axis=1)
    placed = _placed(step, step.weights.to_float32(together))
    query, key = graph.split(step.weights.from_float32(placed), [heads, heads], axis=1)
    return query, key, value


def _placed(step: _Step, vectors: Value) -> Value:
    """Queries and keys in float32, turned to their positions where the model rotates, and scaled."""
    if step.rotary is None:
        return step.graph.op("Mul", vectors, step.graph.constant(step.config.head_dim**-0.25, "float32"))
    return step.graph.op("RotaryEmbedding", vectors, *step.rotary, step.positions, interleaved=1)


def _padded(step: _Step, by_token: Value) -> Value:
    """Heads [B, T, 3 * heads, head_dim] with zeros behind, up to the width that the caches have."""
    missing = step.config.cache_width - step.config.head_dim
    if missing == 0:
        return by_token
    return step.graph.op("Pad", by_token, step.graph.constant([0, 0, 0, 0, 0, 0, 0, missing], "int64"))


def _unpadded(step: _Step, by_token: Value) -> Value:
    """Heads [B, T, heads, cache_width] without the zeros."""
    if step.config.cache_width == step.config.head_dim:
        return by_token
    first, stop, axis = (step.graph.constant([number], "int64") for number in (0, step.config.head_dim, -1))
    return step.graph.op("Slice", by_token, first, stop, axis)


def _scatter(step: _Step, name: str, output: str, update: Value) -> Value:
    """Write `update` into the slots from `write_index` of the cache `name`; the whole cache is the result."""
    shape = ("B", step.config.heads, "S", step.config.cache_width)
    cache = step.graph.input(name, step.weights.dtype, shape)
    whole = step.graph.op("TensorScatter", cache, update, step.write_index, name=output, axis=-2, mode="linear")
    step.graph.output(output, whole, step.weights.dtype, shape)
    return whole


def _feed_forward_block(step: _Step, x: Value, layer: int) -> Value:
    """SwiGLU: w2 (silu(w1 x) * (w3 x)), added to the residual stream."""
    normed = _norm(step, x, f"layers.{layer}.ffn_norm.weight")
    gate = step.weights.linear(normed, f"layers.{layer}.feed_forward.w1.weight")
    open_gate = step.graph.op("Mul", gate, step.graph.op("Sigmoid", gate))
    up = step.weights.linear(normed, f"layers.{layer}.feed_forward.w3.weight")
    inner = step.graph.op("Mul", open_gate, up)
    return step.weights.linear(inner, f"layers.{layer}.feed_forward.w2.weight", residual=x)


def _logits(step: _Step, x: Value, rows: Value) -> None:
    graph, config = step.graph, step.config
    shape = graph.op("Concat", graph.op("Shape", step.positions), graph.constant([config.dim], "int64"), axis=0)
    indices = graph.op("Unsqueeze", rows, graph.constant([2], "int64"))
    chosen = graph.op("GatherND", graph.op("Reshape", x, shape), indices, batch_dims=1)
    normed = _norm(step, graph.op("Reshape", chosen, step.flat_shape), "norm.weight")
    flat = step.weights.linear(normed, "output.weight")
    logit_shape = graph.op("Concat", graph.op("Shape", rows), graph.constant([config.vocabulary], "int64"), axis=0)
    # A step may ask for no logits: a zero in the shape then means zero, not "as in the input".
    logits = graph.op("Reshape", step.weights.to_float32(flat), logit_shape, name="logits", allowzero=1)
    graph.output("logits", logits, "float32", ["B", "R", config.vocabulary])


def _norm(step: _Step, x: Value, name: str) -> Value:
    """RMS norm: computed in float32, brought back to F, THEN scaled by the weight."""
    graph, weights, epsilon = step.graph, step.weights, step.config.norm_eps
    if weights.dtype == "float32":
        return graph.op("RMSNormalization", x, weights[name], axis=-1, epsilon=epsilon)
    ones = graph.constant(np.ones(step.config.dim), "float32")
    exact = graph.op("RMSNormalization", weights.to_float32(x), ones, axis=-1, epsilon=epsilon)
    return graph.op("Mul", weights.from_float32(exact), weights[name])
