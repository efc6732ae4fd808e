"""The graph that turns a condition into prefix embeddings, with the null half of classifier-free guidance appended."""

from __future__ import annotations

from mulo_export.checkpoints.ar_dtok import FEATURE_BIAS, FEATURE_WEIGHT
from mulo_export.checkpoints.llamagen import CLASS_TABLE, TEXT_INPUT, TEXT_NULL, TEXT_OUTPUT
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.precision import Weights
from mulo_export.graphs.ta_tok import FoldedTaTok, feature_values

__all__ = ["condition_graph", "feature_prefix"]


def condition_graph(
    config: TransformerConfig, file: TensorFile, location: str, ta_tok: FoldedTaTok | None = None
) -> GraphBuilder:
    """The condition graph of the transformer whose weights lie in `file`, called `location` beside the graph.

    Inputs: class_id [N] int64, text_features [N, P, E] float32, or ta_tok_codes [N, P] int64, for which `ta_tok` is
        needed, of the same type as `file`.
    Output: cond_embeds [2 N, P, D] in the type of the token embedding; the second half is the null condition.
    """
    graph = GraphBuilder("condition")
    weights = Weights(graph, file, location, typed_by="tok_embeddings.weight")
    if ta_tok is not None:
        codes = graph.input("ta_tok_codes", "int64", ["N", config.prefix])
        embedded = feature_prefix(graph, weights, feature_values(graph, ta_tok, codes))
    elif config.classes is not None:
        embedded = _class(graph, weights, config.classes)
    else:
        embedded = _text(graph, weights, config)
    shape = graph.constant([-1, config.prefix, config.dim], "int64")
    output = graph.op("Reshape", embedded, shape, name="cond_embeds")
    graph.output("cond_embeds", output, weights.dtype, ["B", config.prefix, config.dim])
    return graph


def feature_prefix(graph: GraphBuilder, weights: Weights, features: Value) -> Value:
    """Projected TA-Tok features [2 N * P, D] of `features` [N * P, E]; the null condition is features of zero."""
    given = graph.op("Gemm", features, weights[FEATURE_WEIGHT], weights[FEATURE_BIAS], transB=1)
    null = graph.op("Expand", weights[FEATURE_BIAS], graph.op("Shape", given))
    return graph.op("Concat", given, null, axis=0)


def _class(graph: GraphBuilder, weights: Weights, classes: int) -> Value:
    """Rows [2 N, D] of the class table, whose last row is the null class."""
    class_id = graph.input("class_id", "int64", ["N"])
    null = graph.op("Expand", graph.constant([classes], "int64"), graph.op("Shape", class_id))
    return graph.op("Gather", weights[CLASS_TABLE], graph.op("Concat", class_id, null, axis=0), axis=0)


def _text(graph: GraphBuilder, weights: Weights, config: TransformerConfig) -> Value:
    """Projected features [2 N * P, D]; the null condition is learned in feature space and is projected too."""
    assert config.feature_size is not None
    features = graph.input("text_features", "float32", ["N", config.prefix, config.feature_size])
    given = weights.from_float32(features)
    null = graph.op("Expand", weights[TEXT_NULL], graph.op("Shape", features))
    both = graph.op("Concat", given, null, axis=0)
    flat = graph.op("Reshape", both, graph.constant([-1, config.feature_size], "int64"))
    inner = graph.op("Gemm", flat, weights[TEXT_INPUT], transB=1)
    return graph.op("Gemm", graph.op("Gelu", inner, approximate="tanh"), weights[TEXT_OUTPUT], transB=1)
