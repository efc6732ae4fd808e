"""The learned upsampler as a graph, in place of the one that goes by way of pixels."""

from __future__ import annotations

import numpy as np

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.token_upsampler import UpsamplerConfig
from mulo_export.codebook import normalised_codebook
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.vq import VqScope, nearest_code

__all__ = ["token_upsampler_graph"]


def token_upsampler_graph(config: UpsamplerConfig, file: TensorFile, location: str, tokenizer: VqScope) -> GraphBuilder:
    """Declare token_ids [N, h, w] -> candidate_ids [N, h * ratio, w * ratio].

    Row-causal convolutions over code vectors and a pixel shuffle; each code repeated is where they start from.

    Args:
        config: the network's shape.
        file: its weights.
        location: what the graph calls that file.
        tokenizer: whose codebook it reads and writes; its graph is this one.
    """
    graph = tokenizer.graph
    token_ids = graph.input("token_ids", "int64", ["N", "h", "w"])
    vectors = graph.op("Gather", graph.constant(normalised_codebook(tokenizer.file)), token_ids)
    codes = graph.op("Transpose", vectors, perm=[0, 3, 1, 2])

    def convolve(name: str, x: Value) -> Value:
        weight, bias = (graph.weight(file.tensors[f"{name}.{part}"], location) for part in ("weight", "bias"))
        # Two rows above, none below, a column on either side.
        return graph.op("Conv", x, weight, bias, pads=[2, 1, 0, 1])

    x = _silu(graph, convolve("conv_in", codes))
    for block in range(config.depth):
        x = graph.op("Add", x, _silu(graph, convolve(f"blocks.{block}", x)))
    repeats = graph.constant(np.repeat(np.arange(config.code_size), config.ratio**2), "int64")
    finer = graph.op("Add", graph.op("Gather", codes, repeats, axis=1), convolve("conv_out", x))
    shuffled = graph.op("DepthToSpace", finer, blocksize=config.ratio, mode="CRD")
    graph.output("candidate_ids", nearest_code(tokenizer, shuffled), "int64", ["N", "rh", "rw"])
    return graph


def _silu(graph: GraphBuilder, x: Value) -> Value:
    return graph.op("Mul", x, graph.op("Sigmoid", x))
