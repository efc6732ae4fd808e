"""The VQ tokenizer's graphs: tokens -> image and image -> tokens, block by block (LlamaGen, arXiv 2406.06525)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import VqBlock, VqConfig
from mulo_export.codebook import normalised_codebook
from mulo_export.graphs.builder import GraphBuilder, Value

__all__ = ["VqScope", "decode_tokens", "encode_image", "nearest_code", "vq_decode_graph", "vq_encode_graph"]

_AROUND = (1, 1, 1, 1)
_RIGHT_AND_BELOW = (0, 0, 1, 1)


@dataclass(frozen=True, slots=True)
class VqScope:
    """What every block needs to declare itself.

    Attributes:
        graph: the graph under construction.
        config: the tokenizer's structure.
        file: its weights.
        location: where the weights will lie, relative to the graph.
    """

    graph: GraphBuilder
    config: VqConfig
    file: TensorFile
    location: str

    def weight(self, name: str) -> Value:
        """The weight `name` in float32, whatever type the file has."""
        value = self.graph.weight(self.file.tensors[name], self.location)
        return value if self.file.tensors[name].dtype == "F32" else self.graph.cast(value, "float32")


def vq_decode_graph(config: VqConfig, file: TensorFile, location: str) -> GraphBuilder:
    """Declare token_ids [N, h, w] -> image [N, 3, H, W], nominally in -1..1, not clamped."""
    graph = GraphBuilder("vq_decode")
    token_ids = graph.input("token_ids", "int64", ["N", "h", "w"])
    image = decode_tokens(VqScope(graph, config, file, location), token_ids)
    graph.output("image", image, "float32", ["N", 3, "H", "W"])
    return graph


def vq_encode_graph(config: VqConfig, file: TensorFile, location: str) -> GraphBuilder:
    """Declare image [N, 3, H, W] in -1..1 -> latent [N, code_size, h, w], token_ids [N, h, w]."""
    graph = GraphBuilder("vq_encode")
    scope = VqScope(graph, config, file, location)
    latent = _latent(scope, graph.input("image", "float32", ["N", 3, "H", "W"]))
    graph.output("latent", latent, "float32", ["N", config.code_size, "h", "w"])
    graph.output("token_ids", nearest_code(scope, latent), "int64", ["N", "h", "w"])
    return graph


def decode_tokens(scope: VqScope, token_ids: Value) -> Value:
    """Tokens [N, h, w] -> image [N, 3, H, W]."""
    graph = scope.graph
    vectors = graph.op("Gather", graph.constant(normalised_codebook(scope.file)), token_ids)
    latent = _convolve(scope, "post_quant_conv", graph.op("Transpose", vectors, perm=[0, 3, 1, 2]))
    return _side(scope, "decoder", latent, scope.config.decoder)


def encode_image(scope: VqScope, image: Value) -> Value:
    """Image [N, 3, H, W] -> tokens [N, h, w]."""
    return nearest_code(scope, _latent(scope, image))


def _latent(scope: VqScope, image: Value) -> Value:
    """Image [N, 3, H, W] -> vectors [N, code_size, h, w], to be compared with the codebook."""
    return _convolve(scope, "quant_conv", _side(scope, "encoder", image, scope.config.encoder))


def nearest_code(scope: VqScope, latent: Value) -> Value:
    """The code of largest cosine, the first in a tie; a vector's own length does not change which one that is."""
    graph = scope.graph
    codes = graph.constant(normalised_codebook(scope.file).T)
    cosines = graph.op("MatMul", graph.op("Transpose", latent, perm=[0, 2, 3, 1]), codes)
    return graph.op("ArgMax", cosines, axis=-1, keepdims=0)


def _side(scope: VqScope, side: str, x: Value, blocks: tuple[VqBlock, ...]) -> Value:
    x = _convolve(scope, f"{side}.conv_in", x, pads=_AROUND)
    for block in blocks:
        x = _BLOCKS[block.kind](scope, block, x)
    return _convolve(scope, f"{side}.conv_out", _swish(scope, _normalise(scope, f"{side}.norm_out", x)), pads=_AROUND)


def _residual(scope: VqScope, block: VqBlock, x: Value) -> Value:
    stem = block.stem
    inner = _convolve(scope, f"{stem}.conv1", _swish(scope, _normalise(scope, f"{stem}.norm1", x)), pads=_AROUND)
    inner = _convolve(scope, f"{stem}.conv2", _swish(scope, _normalise(scope, f"{stem}.norm2", inner)), pads=_AROUND)
    shortcut = x if block.inputs == block.outputs else _convolve(scope, f"{stem}.nin_shortcut", x)
    return scope.graph.op("Add", shortcut, inner)


def _attention(scope: VqScope, block: VqBlock, x: Value) -> Value:
    """One head over all positions of the grid."""
    graph, stem = scope.graph, block.stem
    normal = _normalise(scope, f"{stem}.norm", x)
    flat = graph.constant([0, 0, -1], "int64")
    query, key, value = (graph.op("Reshape", _convolve(scope, f"{stem}.{name}", normal), flat) for name in "qkv")
    query = graph.op("Transpose", graph.op("Mul", query, graph.constant(block.inputs**-0.5, "float32")), perm=[0, 2, 1])
    weights = graph.op("Softmax", graph.op("MatMul", query, key), axis=-1)
    mixed = graph.op("MatMul", value, graph.op("Transpose", weights, perm=[0, 2, 1]))
    return graph.op("Add", x, _convolve(scope, f"{stem}.proj_out", graph.op("Reshape", mixed, graph.op("Shape", x))))


def _upsample(scope: VqScope, block: VqBlock, x: Value) -> Value:
    """Repeat every position twice along both sides, then smooth."""
    scales = scope.graph.constant([1, 1, 2, 2], "float32")
    repeated = scope.graph.op(
        "Resize", x, None, scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    return _convolve(scope, f"{block.stem}.conv", repeated, pads=_AROUND)


def _downsample(scope: VqScope, block: VqBlock, x: Value) -> Value:
    """Halve both sides; padding is on the right and at the bottom only."""
    return _convolve(scope, f"{block.stem}.conv", x, pads=_RIGHT_AND_BELOW, strides=(2, 2))


_BLOCKS = {"residual": _residual, "attention": _attention, "upsample": _upsample, "downsample": _downsample}


def _convolve(
    scope: VqScope, stem: str, x: Value, pads: Sequence[int] = (0, 0, 0, 0), strides: Sequence[int] = (1, 1)
) -> Value:
    weight, bias = scope.weight(f"{stem}.weight"), scope.weight(f"{stem}.bias")
    return scope.graph.op("Conv", x, weight, bias, pads=pads, strides=strides)


def _normalise(scope: VqScope, stem: str, x: Value) -> Value:
    """Group norm: one mean and variance for all positions of a group of channels.

    ONNX Runtime has a kernel for `InstanceNormalization` but expands `GroupNormalization`: a sixth more for a decoder.
    """
    graph, groups = scope.graph, scope.config.groups
    one, zero = graph.constant([1] * groups, "float32"), graph.constant([0] * groups, "float32")
    grouped = graph.op("Reshape", x, graph.constant([0, groups, -1], "int64"))
    normal = graph.op("InstanceNormalization", grouped, one, zero, epsilon=scope.config.norm_eps)
    normal = graph.op("Reshape", normal, graph.op("Shape", x))
    gain, offset = (_per_channel(scope, f"{stem}.{name}") for name in ("weight", "bias"))
    return graph.op("Add", graph.op("Mul", normal, gain), offset)


def _per_channel(scope: VqScope, name: str) -> Value:
    return scope.graph.op("Unsqueeze", scope.weight(name), scope.graph.constant([1, 2], "int64"))


def _swish(scope: VqScope, x: Value) -> Value:
    return scope.graph.op("Mul", x, scope.graph.op("Sigmoid", x))
