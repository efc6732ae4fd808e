"""TA-Tok codes to features, as part of a condition graph: a table, a small vision transformer, a task layer."""

from __future__ import annotations

from dataclasses import dataclass

from mulo_export.checkpoints.ta_tok import DECODER, TASK, TaTokConfig
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.fold_ta_tok import FOLDED_TABLE, RESIZED_POSITIONS
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.precision import Weights

__all__ = ["FoldedTaTok", "feature_values"]


@dataclass(frozen=True, slots=True)
class FoldedTaTok:
    """TA-Tok as a condition graph reads it.

    Attributes:
        config: its shape.
        file: the weights that `fold_ta_tok` wrote.
        location: what the graph calls that file, relative to its own directory.
    """

    config: TaTokConfig
    file: TensorFile
    location: str


@dataclass(frozen=True, slots=True)
class _Decoder:
    """What every layer shares; `head_shape` is [N, P, heads, head_dim] and `flat_shape` [N * P, D]."""

    graph: GraphBuilder
    weights: Weights
    config: TaTokConfig
    head_shape: Value
    flat_shape: Value


def feature_values(graph: GraphBuilder, ta_tok: FoldedTaTok, codes: Value) -> Value:
    """Features [N * P, D] of `codes` [N, P], in the type of the folded table.

    The decoder is SigLIP2's vision transformer (Tschannen et al., arXiv 2502.14786): pre-norm blocks that see every
    position, with biases everywhere.
    """
    config, weights = ta_tok.config, Weights(graph, ta_tok.file, ta_tok.location, typed_by=FOLDED_TABLE)
    split = graph.constant([config.heads, config.dim // config.heads], "int64")
    decoder = _Decoder(
        graph,
        weights,
        config,
        head_shape=graph.op("Concat", graph.op("Shape", codes), split, axis=0),
        flat_shape=graph.constant([-1, config.dim], "int64"),
    )
    embedded = graph.op("Gather", weights[FOLDED_TABLE], codes, axis=0)
    x = graph.op("Reshape", graph.op("Add", embedded, weights[RESIZED_POSITIONS]), decoder.flat_shape)
    for layer in range(config.layers):
        x = _block(decoder, x, f"{DECODER}.encoder.layers.{layer}")
    x = _linear(decoder, _norm(decoder, x, f"{DECODER}.post_layernorm"), f"{TASK}.0")
    return _linear(decoder, graph.op("Tanh", x), f"{TASK}.2")


def _block(decoder: _Decoder, x: Value, stem: str) -> Value:
    graph = decoder.graph
    attended = _attention(decoder, _norm(decoder, x, f"{stem}.layer_norm1"), f"{stem}.self_attn")
    x = graph.op("Add", x, attended)
    inner = _linear(decoder, _norm(decoder, x, f"{stem}.layer_norm2"), f"{stem}.mlp.fc1")
    return graph.op("Add", x, _linear(decoder, graph.op("Gelu", inner, approximate="tanh"), f"{stem}.mlp.fc2"))


def _attention(decoder: _Decoder, x: Value, stem: str) -> Value:
    graph = decoder.graph
    query, key, value = (_by_head(decoder, _linear(decoder, x, f"{stem}.{name}_proj")) for name in "qkv")
    attended = graph.op("Attention", query, key, value)  # scaled by 1 / sqrt(head_dim), the operator's default
    by_token = graph.op("Transpose", attended, perm=[0, 2, 1, 3])
    return _linear(decoder, graph.op("Reshape", by_token, decoder.flat_shape), f"{stem}.out_proj")


def _by_head(decoder: _Decoder, x: Value) -> Value:
    """[N * P, D] -> [N, heads, P, head_dim]."""
    by_token = decoder.graph.op("Reshape", x, decoder.head_shape)
    return decoder.graph.op("Transpose", by_token, perm=[0, 2, 1, 3])


def _norm(decoder: _Decoder, x: Value, stem: str) -> Value:
    """Layer norm, whose statistics the operator computes in float32 whatever the type."""
    scale, bias = decoder.weights[f"{stem}.weight"], decoder.weights[f"{stem}.bias"]
    return decoder.graph.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=decoder.config.norm_eps)


def _linear(decoder: _Decoder, x: Value, stem: str) -> Value:
    weights = decoder.weights
    return decoder.graph.op("Gemm", x, weights[f"{stem}.weight"], weights[f"{stem}.bias"], transB=1)
