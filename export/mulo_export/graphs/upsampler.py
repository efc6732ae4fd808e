"""Between the grids of drafter and target, by way of pixels: the upsampler's and the downsampler's graphs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import VqConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.vq import VqScope, decode_tokens, encode_image

__all__ = ["downsampler_graph", "upsampler_graph"]

_CUBIC_COEFFICIENT = -0.75
_REACH = 2
"""Pixels on either side that a pixel's enlargement depends on."""


def upsampler_graph(
    config: VqConfig, file: TensorFile, location: str, ratio: int, steepness: float = 1.0
) -> GraphBuilder:
    """Declare token_ids [N, h, w] -> candidate_ids [N, h * ratio, w * ratio].

    The image of the tokens, clamped to -1..1, is enlarged by a bicubic filter and encoded again.

    Args:
        config: the tokenizer's structure.
        file: its weights.
        location: where the weights will lie, relative to the graph.
        ratio: rows that become of one.
        steepness: how much steeper edges become than the filter leaves them.
    """
    graph = GraphBuilder("upsampler")
    scope = VqScope(graph, config, file, location)
    image = _clamp(graph, decode_tokens(scope, graph.input("token_ids", "int64", ["N", "h", "w"])))
    enlarged = _enlarge(graph, image, ratio)
    if steepness != 1:
        enlarged = _steepen(graph, enlarged, ratio, steepness)
    graph.output("candidate_ids", encode_image(scope, enlarged), "int64", ["N", "rh", "rw"])
    return graph


def downsampler_graph(config: VqConfig, file: TensorFile, location: str, ratio: int) -> GraphBuilder:
    """Declare candidate_ids [N, h * ratio, w * ratio] -> token_ids [N, h, w].

    The image of the candidates, clamped to -1..1, is averaged over squares of `ratio` pixels and encoded again.
    """
    graph = GraphBuilder("downsampler")
    scope = VqScope(graph, config, file, location)
    image = _clamp(graph, decode_tokens(scope, graph.input("candidate_ids", "int64", ["N", "rh", "rw"])))
    smaller = graph.op("AveragePool", image, kernel_shape=[ratio, ratio], strides=[ratio, ratio])
    graph.output("token_ids", encode_image(scope, smaller), "int64", ["N", "h", "w"])
    return graph


def _clamp(graph: GraphBuilder, image: Value) -> Value:
    return graph.op("Clip", image, graph.constant(-1, "float32"), graph.constant(1, "float32"))


def _enlarge(graph: GraphBuilder, image: Value, ratio: int) -> Value:
    """Bicubic enlargement with half-pixel centres and repeated edges, as PyTorch computes it.

    At a whole ratio it is one convolution for each of the ratio x ratio places within a pixel, which ONNX Runtime
    runs many times faster than `Resize` in its cubic mode.
    """
    taps = _cubic_taps(ratio)
    kernels = np.einsum("py,qx->pqyx", taps, taps).reshape(ratio * ratio, 1, *[2 * _REACH + 1] * 2)
    margin = graph.constant([0, 0, _REACH, _REACH] * 2, "int64")
    padded = graph.op("Pad", image, margin, mode="edge")
    places = graph.op("Conv", padded, graph.constant(np.tile(kernels, (3, 1, 1, 1)), "float32"), group=3)
    return graph.op("DepthToSpace", places, blocksize=ratio, mode="CRD")


def _steepen(graph: GraphBuilder, image: Value, ratio: int, steepness: float) -> Value:
    """Every pixel `steepness` times as far from the middle of its surroundings' range, but never out of that range.

    An edge that the filter has spread over several pixels gets as narrow as one of an image that was never enlarged,
    in the same place. The surroundings reach as far as a pixel before the enlargement did.
    """
    side, reach = [2 * ratio - 1] * 2, [ratio - 1] * 4
    highest = graph.op("MaxPool", image, kernel_shape=side, pads=reach)
    lowest = graph.op("Neg", graph.op("MaxPool", graph.op("Neg", image), kernel_shape=side, pads=reach))
    middle = graph.op("Mul", graph.op("Add", highest, lowest), graph.constant(0.5, "float32"))
    away = graph.op("Mul", graph.op("Sub", image, middle), graph.constant(steepness, "float32"))
    return graph.op("Min", graph.op("Max", graph.op("Add", middle, away), lowest), highest)


def _cubic_taps(ratio: int) -> NDArray[np.float64]:
    """Weights [ratio, 5] of a pixel and its neighbours along one axis, for every place within the pixel.

    Keys' kernel (IEEE Trans. ASSP 29, 1981) at distance d, with a = -0.75.
    """
    a = _CUBIC_COEFFICIENT
    place = (np.arange(ratio) + 0.5) / ratio - 0.5
    d = np.abs(place[:, None] - np.arange(-_REACH, _REACH + 1))
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.select([d <= 1, d < 2], [near, far])
