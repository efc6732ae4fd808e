"""The layers of LlamaGen and Tar as nodes of a graph, for T queries against a cache of S slots.

The residual stream is flat, [B * T, D]: linear layers are then `Gemm`, which reads weights of shape [out, in] where
they lie and adds the residual itself.

Keys and queries are both kept divided by head_dim ** 1/4, so that attention itself need not scale: ONNX Runtime then
takes its matrix-vector path for a single query, and TensorRT does not rescale the whole key cache at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mulo_engines.cache_tensors import layer_caches, updated_name

from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.precision import Weights
from mulo_export.graphs.rope import rope_tables

__all__ = [
    "Step",
    "attention",
    "by_query",
    "chosen_queries",
    "feed_forward_block",
    "give_logits",
    "linear",
    "norm",
    "shared_step",
]


@dataclass(frozen=True, slots=True)
class Step:
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


def shared_step(graph: GraphBuilder, weights: Weights, config: TransformerConfig) -> Step:
    """Declare the inputs that place T queries, and what layers make of them."""
    positions = graph.input("position_ids", "int64", ["B", "T"])
    rotary = None if config.position_rows is not None else rope_tables(config)
    heads = graph.constant([3 * config.heads, config.head_dim], "int64")
    return Step(
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


def attention(step: Step, normed: Value, residual: Value, layer: int) -> Value:
    """Attention of `normed` to the layer's cache, into which it writes its own keys, added to the residual stream."""
    graph = step.graph
    projected = linear(step, normed, f"layers.{layer}.attention.wqkv.weight")
    query, key, value = _heads(step, projected)
    key_cache, value_cache = layer_caches(layer)
    keys, values = _scatter(step, key_cache, key), _scatter(step, value_cache, value)
    attended = graph.op("Attention", query, keys, values, step.mask, scale=1.0)
    by_token = graph.op("Transpose", attended, perm=[0, 2, 1, 3])
    flat = graph.op("Reshape", _unpadded(step, by_token), step.flat_shape)
    return linear(step, flat, f"layers.{layer}.attention.wo.weight", residual=residual)


def _heads(step: Step, projected: Value) -> tuple[Value, Value, Value]:
    """Queries and keys, turned to their positions, and values, each [B, H, T, cache_width]."""
    graph, heads = step.graph, step.config.heads
    by_token = _padded(step, graph.op("Reshape", projected, step.head_shape))
    by_head = graph.op("Transpose", by_token, perm=[0, 2, 1, 3])
    together, value = graph.split(by_head, [2 * heads, heads], axis=1)
    placed = _placed(step, step.weights.to_float32(together))
    query, key = graph.split(step.weights.from_float32(placed), [heads, heads], axis=1)
    return query, key, value


def _placed(step: Step, vectors: Value) -> Value:
    """Queries and keys in float32, turned to their positions where the model rotates, and scaled."""
    if step.rotary is None:
        return step.graph.op("Mul", vectors, step.graph.constant(step.config.head_dim**-0.25, "float32"))
    return step.graph.op("RotaryEmbedding", vectors, *step.rotary, step.positions, interleaved=1)


def _padded(step: Step, by_token: Value) -> Value:
    """Heads [B, T, 3 * heads, head_dim] with zeros behind, up to the width that the caches have."""
    missing = step.config.cache_width - step.config.head_dim
    if missing == 0:
        return by_token
    return step.graph.op("Pad", by_token, step.graph.constant([0, 0, 0, 0, 0, 0, 0, missing], "int64"))


def _unpadded(step: Step, by_token: Value) -> Value:
    """Heads [B, T, heads, cache_width] without the zeros."""
    if step.config.cache_width == step.config.head_dim:
        return by_token
    first, stop, axis = (step.graph.constant([number], "int64") for number in (0, step.config.head_dim, -1))
    return step.graph.op("Slice", by_token, first, stop, axis)


def _scatter(step: Step, name: str, update: Value) -> Value:
    """Write `update` into the slots from `write_index` of the cache `name`; the whole cache is the result."""
    output = updated_name(name)
    shape = ("B", step.config.heads, "S", step.config.cache_width)
    cache = step.graph.input(name, step.weights.dtype, shape)
    whole = step.graph.op("TensorScatter", cache, update, step.write_index, name=output, axis=-2, mode="linear")
    step.graph.output(output, whole, step.weights.dtype, shape)
    return whole


def feed_forward_block(step: Step, x: Value, layer: int) -> Value:
    """SwiGLU: w2 (silu(w1 x) * (w3 x)), added to the residual stream."""
    normed = norm(step, x, f"layers.{layer}.ffn_norm.weight")
    gate = linear(step, normed, f"layers.{layer}.feed_forward.w1.weight")
    open_gate = step.graph.op("Mul", gate, step.graph.op("Sigmoid", gate))
    up = linear(step, normed, f"layers.{layer}.feed_forward.w3.weight")
    inner = step.graph.op("Mul", open_gate, up)
    return linear(step, inner, f"layers.{layer}.feed_forward.w2.weight", residual=x)


def norm(step: Step, x: Value, name: str) -> Value:
    """RMS norm: computed in float32, brought back to F, THEN scaled by the weight."""
    graph, weights, epsilon = step.graph, step.weights, step.config.norm_eps
    if weights.dtype == "float32":
        return graph.op("RMSNormalization", x, weights[name], axis=-1, epsilon=epsilon)
    ones = graph.constant(np.ones(step.config.dim), "float32")
    exact = graph.op("RMSNormalization", weights.to_float32(x), ones, axis=-1, epsilon=epsilon)
    return graph.op("Mul", weights.from_float32(exact), weights[name])


def linear(step: Step, x: Value, name: str, residual: Value | None = None) -> Value:
    """`x` times the weight `name`, transposed, plus `residual`."""
    return step.weights.linear(x, name, residual)


def by_query(step: Step, x: Value) -> Value:
    """The flat stream as [B, T, D]."""
    graph, width = step.graph, step.graph.constant([step.config.dim], "int64")
    return graph.op("Reshape", x, graph.op("Concat", graph.op("Shape", step.positions), width, axis=0))


def chosen_queries(step: Step, by_token: Value, rows: Value) -> Value:
    """The queries `rows` [B, R] of [B, T, D], as a flat stream."""
    graph = step.graph
    indices = graph.op("Unsqueeze", rows, graph.constant([2], "int64"))
    return graph.op("Reshape", graph.op("GatherND", by_token, indices, batch_dims=1), step.flat_shape)


def give_logits(step: Step, flat: Value, rows: Value) -> None:
    """Declare the output `logits` [B, R, V] float32, from the flat logits of the queries `rows`."""
    graph, vocabulary = step.graph, step.config.vocabulary
    shape = graph.op("Concat", graph.op("Shape", rows), graph.constant([vocabulary], "int64"), axis=0)
    # A step may ask for no logits: a zero in the shape then means zero, not "as in the input".
    logits = graph.op("Reshape", step.weights.to_float32(flat), shape, name="logits", allowzero=1)
    graph.output("logits", logits, "float32", ["B", "R", vocabulary])
