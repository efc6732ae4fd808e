"""The decoder's graph: tokens -> pixels, rounded as the model's own scripts round."""

from __future__ import annotations

from collections.abc import Mapping

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import VqConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.vq import VqScope, decode_tokens

__all__ = ["ROUNDINGS", "WITNESS_SCALE", "decoder_graph"]

ROUNDINGS: Mapping[str, float] = {"half_up": 128.0, "truncate": 127.5}
"""What is added to 127.5 x before the fraction is cut off: LlamaGen's scripts round half up, Tar's truncate."""

WITNESS_SCALE = 2.0**-40
"""What magnitudes are multiplied with before they are summed: 2^40 of the largest float32 are still finite."""


def decoder_graph(config: VqConfig, file: TensorFile, location: str, rounding: str) -> GraphBuilder:
    """Declare token_ids [N, h, w] -> image [N, H, W, 3] uint8 and witness [N] float32.

    The witness of an image is finite if and only if all its raw values are, which its bytes cannot tell.

    Args:
        config: the tokenizer's structure.
        file: its weights.
        location: where the weights will lie, relative to the graph.
        rounding: a key of `ROUNDINGS`.
    """
    graph = GraphBuilder("decoder")
    token_ids = graph.input("token_ids", "int64", ["N", "h", "w"])
    raw = decode_tokens(VqScope(graph, config, file, location), token_ids)
    image = graph.op("Clip", raw, graph.constant(-1, "float32"), graph.constant(1, "float32"))
    scaled = graph.op("Mul", image, graph.constant(127.5, "float32"))
    levels = graph.op("Add", scaled, graph.constant(ROUNDINGS[rounding], "float32"))
    # TensorRT has 8-bit values nowhere but at its outputs: the cast comes last.
    pixels = graph.cast(graph.op("Transpose", levels, perm=[0, 2, 3, 1]), "uint8", name="image")
    graph.output("image", pixels, "uint8", ["N", "H", "W", 3])
    graph.output("witness", _witness(graph, raw), "float32", ["N"])
    return graph


def _witness(graph: GraphBuilder, raw: Value) -> Value:
    """The sum of an image's magnitudes, so small that it cannot overflow: [N, 3, H, W] -> [N].

    A sum cannot be left out by a builder, as a product with zero might, nor does it lose NaN, as a maximum might; and
    magnitudes do not cancel, so that two backends' sums lie as near each other as their pixels.
    """
    magnitudes = graph.op("Mul", graph.op("Abs", raw), graph.constant(WITNESS_SCALE, "float32"))
    return graph.op("ReduceSum", magnitudes, graph.constant([1, 2, 3], "int64"), name="witness", keepdims=0)
