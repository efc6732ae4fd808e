"""The decoder's graph: tokens -> pixels, rounded as the model's own scripts round."""

from __future__ import annotations

from collections.abc import Mapping

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import VqConfig
from mulo_export.graphs.builder import GraphBuilder
from mulo_export.graphs.vq import VqScope, decode_tokens

__all__ = ["ROUNDINGS", "decoder_graph"]

ROUNDINGS: Mapping[str, float] = {"half_up": 128.0, "truncate": 127.5}
"""What is added to 127.5 x before the fraction is cut off: LlamaGen's scripts round half up, Tar's truncate."""


def decoder_graph(config: VqConfig, file: TensorFile, location: str, rounding: str) -> GraphBuilder:
    """Declare token_ids [N, h, w] -> image [N, H, W, 3] uint8.

    Args:
        config: the tokenizer's structure.
        file: its weights.
        location: where the weights will lie, relative to the graph.
        rounding: a key of `ROUNDINGS`.
    """
    graph = GraphBuilder("decoder")
    token_ids = graph.input("token_ids", "int64", ["N", "h", "w"])
    image = decode_tokens(VqScope(graph, config, file, location), token_ids)
    image = graph.op("Clip", image, graph.constant(-1, "float32"), graph.constant(1, "float32"))
    scaled = graph.op("Mul", image, graph.constant(127.5, "float32"))
    levels = graph.op("Add", scaled, graph.constant(ROUNDINGS[rounding], "float32"))
    # TensorRT has 8-bit values nowhere but at its outputs: the cast comes last.
    pixels = graph.cast(graph.op("Transpose", levels, perm=[0, 2, 3, 1]), "uint8", name="image")
    graph.output("image", pixels, "uint8", ["N", "H", "W", 3])
    return graph
