"""The shape of a transformer of LlamaGen's kind, and what a checkpoint's keys and shapes tell of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = [
    "PRESETS",
    "PUBLISHED_PIXELS_PER_TOKEN",
    "Preset",
    "TransformerConfig",
    "check_image_side",
    "layer_count",
    "layer_shapes",
    "matrix",
    "read_heads",
    "side_in_name",
    "told",
]

PUBLISHED_PIXELS_PER_TOKEN = 16
"""Of every published tokenizer but VQ-8, for a transformer that is read without its own."""

_NORM_EPS = 1e-5
_ROPE_BASE = 10000.0
_HEAD_STEP = 8
_IMAGE_SIDE = re.compile(r"(?<!\d)(256|384|512|1024)(?!\d)")
"""The published image sides in pixels, in a file's name."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A published size: its name and its number of attention heads."""

    name: str
    heads: int


PRESETS: Mapping[tuple[int, int], Preset] = {
    (12, 384): Preset("S", 6),
    (12, 768): Preset("B", 12),
    (24, 1024): Preset("L", 16),
    (30, 1280): Preset("LP", 20),
    (36, 1280): Preset("XL", 20),
    (48, 1536): Preset("XXL", 24),
    (48, 2560): Preset("XXXL", 40),
    (22, 2048): Preset("1B", 32),
    (24, 3200): Preset("3B", 32),
    (32, 4096): Preset("7B", 32),
}
"""The published sizes by layers and width; S and LP are Tar's, the last three LlamaGen's, the others of both."""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The shape of a transformer.

    Attributes:
        family: "llamagen-c2i" (one class token as prefix), "llamagen-t2i" (text features) or "tar" (TA-Tok features).
        layers: number of blocks.
        heads: attention heads; queries, keys and values have the same number.
        dim: width of the residual stream.
        ffn: inner width of the feed-forward block.
        vocabulary: number of image tokens.
        grid: image tokens along one side.
        prefix: condition positions before the first image token.
        feature_size: width of a feature of the condition; None for classes.
        classes: number of classes without the null class; None for features.
        position_rows: rows of a table of absolute positions that is added to the input; None where queries and keys
            are rotated instead.
        norm_eps: added to the mean square in every norm.
        rope_base: base of the rotary frequencies.
    """

    family: str
    layers: int
    heads: int
    dim: int
    ffn: int
    vocabulary: int
    grid: int
    prefix: int
    feature_size: int | None
    classes: int | None
    position_rows: int | None = None
    norm_eps: float = _NORM_EPS
    rope_base: float = _ROPE_BASE

    @property
    def positions(self) -> int:
        """Sequence positions: the prefix and every image token."""
        return self.prefix + self.grid * self.grid

    @property
    def condition(self) -> Literal["class", "text", "ta_tok"]:
        """What the prefix is made of."""
        if self.classes is not None:
            return "class"
        return "ta_tok" if self.family == "tar" else "text"

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    @property
    def cache_width(self) -> int:
        """Width of a head in the caches: padded with zeros to a multiple of 8, for fused kernels take no other."""
        return -(-self.head_dim // _HEAD_STEP) * _HEAD_STEP


def layer_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor outside condition and positions, in the order the model uses them."""
    dim, ffn = config.dim, config.ffn
    shapes: dict[str, tuple[int, ...]] = {"tok_embeddings.weight": (config.vocabulary, dim)}
    for layer in range(config.layers):
        shapes |= {
            f"layers.{layer}.attention.wqkv.weight": (3 * dim, dim),
            f"layers.{layer}.attention.wo.weight": (dim, dim),
            f"layers.{layer}.feed_forward.w1.weight": (ffn, dim),
            f"layers.{layer}.feed_forward.w3.weight": (ffn, dim),
            f"layers.{layer}.feed_forward.w2.weight": (dim, ffn),
            f"layers.{layer}.attention_norm.weight": (dim,),
            f"layers.{layer}.ffn_norm.weight": (dim,),
        }
    return shapes | {"norm.weight": (dim,), "output.weight": (config.vocabulary, dim)}


def layer_count(file: TensorFile, stem: str = "layers.") -> int:
    """Number of layers that the keys name after `stem`."""
    return len({name.removeprefix(stem).split(".")[0] for name in file.tensors if name.startswith(stem)})


def matrix(file: TensorFile, name: str) -> tuple[int, int]:
    """Shape of the matrix `name`, from which a size of the model is read.

    Raises:
        CheckpointError: there is no such matrix.
    """
    record = file.tensors.get(name)
    if record is None or len(record.shape) != 2:
        raise CheckpointError(
            f"{file.path}: tensor {name!r} tells a size of the model and cannot be read",
            found="nothing" if record is None else list(record.shape),
            expected="a matrix",
            fix="use the checkpoint's original file",
        )
    rows, columns = record.shape
    return rows, columns


def read_heads(file: TensorFile, layers: int, dim: int, argument: int | None) -> int:
    """Number of attention heads, which weights do not tell: from the metadata, the argument or the published sizes.

    Raises:
        CheckpointError: nothing tells it, two tell it differently, or it does not divide the width.
    """
    preset = PRESETS.get((layers, dim))
    heads = told(file, "n_head", argument)
    if heads is None and preset is not None:
        return preset.heads
    if heads is None:
        raise CheckpointError(
            f"{file.path}: the weights do not tell the number of attention heads",
            found=f"{layers} layers of width {dim}, which is no published size, and no metadata n_head",
            fix="tell it with --target-heads or --drafter-heads, or in the file's metadata n_head",
        )
    if heads < 1 or dim % heads or dim // heads % 4:
        raise CheckpointError(
            f"{file.path}: {heads} attention heads do not fit a model of width {dim}",
            found=f"a head of {dim / max(heads, 1):g}",
            expected="a head width that is a multiple of 4, for two axes of rotary pairs",
            fix="tell the right number with --target-heads or --drafter-heads",
        )
    return heads


def side_in_name(file: TensorFile) -> int | None:
    """The side of the image in pixels that the file's name tells, such as 512 in "t2i_XL_stage2_512.pt"."""
    sides = {int(side) for side in _IMAGE_SIDE.findall(file.path.name)}
    return sides.pop() if len(sides) == 1 else None


def check_image_side(file: TensorFile, grid: int, pixels_per_token: int) -> None:
    """Check that a file which is named after the side of its images has the grid of that side.

    Raises:
        CheckpointError: it is another stage's model, or has another's name.
    """
    side = side_in_name(file)
    if side not in (None, grid * pixels_per_token):
        raise CheckpointError(
            f"{file.path}: the model of another stage than the file's name says",
            found=f"a grid of {grid}, for images of {grid * pixels_per_token} pixels",
            expected=f"images of {side} pixels",
            fix="give the file of the right stage; rename this one if its name is wrong",
        )


def told(file: TensorFile, key: str, argument: int | None) -> int | None:
    """The number `key` from the file's metadata, else the argument.

    Raises:
        CheckpointError: the metadata is no number, or another than the argument.
    """
    text = file.metadata.get(key)
    if text is None:
        return argument
    if not text.isdecimal():
        raise CheckpointError(f"{file.path}: metadata {key!r} is not a number", found=text, expected="a whole number")
    if argument not in (None, int(text)):
        raise CheckpointError(
            f"{file.path}: the {key} that was given is not the one in the file's metadata",
            found=argument,
            expected=int(text),
            fix="leave the option out, or give the file that it was meant for",
        )
    return int(text)
