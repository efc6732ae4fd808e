"""Between the grids of drafter and target, by way of pixels: the upsampler's and the downsampler's graphs."""

from __future__ import annotations

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import VqConfig
from mulo_export.graphs.builder import GraphBuilder, Value
from mulo_export.graphs.vq import VqScope, decode_tokens, encode_image

__all__ = ["downsampler_graph", "upsampler_graph"]

_CUBIC_COEFFICIENT = -0.75


def upsampler_graph(config: VqConfig, file: TensorFile, location: str, ratio: int) -> GraphBuilder:
    """Declare token_ids [N, h, w] -> candidate_ids [N, h * ratio, w * ratio].

    The image of the tokens, clamped to -1..1, is enlarged by a bicubic filter and encoded again.
    """
    graph = GraphBuilder("upsampler")
    scope = VqScope(graph, config, file, location)
    image = _clamp(graph, decode_tokens(scope, graph.input("token_ids", "int64", ["N", "h", "w"])))
    larger = graph.op(
        "Resize",
        image,
        None,
        graph.constant([1, 1, ratio, ratio], "float32"),
        mode="cubic",
        coordinate_transformation_mode="half_pixel",
        cubic_coeff_a=_CUBIC_COEFFICIENT,
    )
    graph.output("candidate_ids", encode_image(scope, larger), "int64", ["N", "candidate_h", "candidate_w"])
    return graph


def downsampler_graph(config: VqConfig, file: TensorFile, location: str, ratio: int) -> GraphBuilder:
    """Declare candidate_ids [N, h * ratio, w * ratio] -> token_ids [N, h, w].

    The image of the candidates, clamped to -1..1, is averaged over squares of `ratio` pixels and encoded again.
    """
    graph = GraphBuilder("downsampler")
    scope = VqScope(graph, config, file, location)
    candidate_ids = graph.input("candidate_ids", "int64", ["N", "candidate_h", "candidate_w"])
    image = _clamp(graph, decode_tokens(scope, candidate_ids))
    smaller = graph.op("AveragePool", image, kernel_shape=[ratio, ratio], strides=[ratio, ratio])
    graph.output("token_ids", encode_image(scope, smaller), "int64", ["N", "h", "w"])
    return graph


def _clamp(graph: GraphBuilder, image: Value) -> Value:
    return graph.op("Clip", image, graph.constant(-1, "float32"), graph.constant(1, "float32"))
