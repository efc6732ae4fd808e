"""LlamaGen transformers (Sun et al., arXiv 2406.06525): what a checkpoint's keys and shapes say about the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.shape_check import shape_faults
from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["TransformerConfig", "condition_shapes", "is_transformer", "layer_shapes", "read_transformer"]

CLASS_TABLE = "cls_embedding.embedding_table.weight"
TEXT_INPUT = "cls_embedding.cap_proj.fc1.weight"
TEXT_OUTPUT = "cls_embedding.cap_proj.fc2.weight"
TEXT_NULL = "cls_embedding.uncond_embedding"

_IGNORED = frozenset({"freqs_cis"})
_NORM_EPS = 1e-5
_ROPE_BASE = 10000.0
# (layers, dim) -> heads of the published sizes B, L, XL, XL of Tar, XXL, XXXL, 1B, 3B, 7B and Tar's smallest.
_PUBLISHED_HEADS: Mapping[tuple[int, int], int] = {
    (12, 768): 12,
    (24, 1024): 16,
    (36, 1280): 20,
    (30, 1280): 20,
    (48, 1536): 24,
    (48, 2560): 40,
    (22, 2048): 32,
    (24, 3200): 32,
    (32, 4096): 32,
    (12, 384): 6,
}


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """The shape of a LlamaGen transformer.

    Attributes:
        family: "llamagen-c2i" (one class token as prefix) or "llamagen-t2i" (text features as prefix).
        layers: number of blocks.
        heads: attention heads; queries, keys and values have the same number.
        dim: width of the residual stream.
        head_dim: width of a head, `dim // heads`.
        ffn: inner width of the feed-forward block.
        vocabulary: number of image tokens.
        grid: image tokens along one side.
        prefix: condition positions before the first image token.
        feature_size: width of a text feature; None for classes.
        classes: number of classes without the null class; None for text.
        norm_eps: added to the mean square in every norm.
        rope_base: base of the rotary frequencies.
    """

    family: str
    layers: int
    heads: int
    dim: int
    head_dim: int
    ffn: int
    vocabulary: int
    grid: int
    prefix: int
    feature_size: int | None
    classes: int | None
    norm_eps: float = _NORM_EPS
    rope_base: float = _ROPE_BASE

    @property
    def positions(self) -> int:
        """Sequence positions: the prefix and every image token."""
        return self.prefix + self.grid * self.grid


def is_transformer(file: TensorFile) -> bool:
    """Whether the keys are those of a LlamaGen transformer, of either family."""
    keys = file.tensors.keys()
    return "tok_embeddings.weight" in keys and "abs_pe" not in keys and bool({CLASS_TABLE, TEXT_INPUT} & keys)


def read_transformer(file: TensorFile, *, grid: int | None = None, heads: int | None = None) -> TransformerConfig:
    """The config of the transformer in `file`, every key and shape of which is checked.

    Weights tell neither heads nor grid. They are taken from the file's metadata `n_head` and `grid`, else from the
    arguments; a model of a published number of layers and width needs no heads.

    Raises:
        CheckpointError: another architecture; missing, surplus or misshapen tensors, all of which are listed; heads or
            a grid that nothing tells, or that the file and the argument tell differently.
    """
    if not is_transformer(file):
        raise CheckpointError(
            f"{file.path}: not a LlamaGen transformer",
            found=f"{len(file.tensors)} tensors such as {', '.join(sorted(file.tensors)[:3])}",
            expected=f"tok_embeddings.weight and {CLASS_TABLE} or {TEXT_INPUT}",
            fix="give a LlamaGen class- or text-conditional checkpoint",
        )
    config = _config(file, grid, heads)
    faults = list(shape_faults(file, layer_shapes(config) | condition_shapes(config), _IGNORED))
    if faults:
        raise CheckpointError(
            f"{file.path}: not the tensors of a {config.family} transformer of {config.layers} layers",
            found="\n            ".join(faults),
            fix="use the checkpoint's original file; nothing is ignored but " + ", ".join(sorted(_IGNORED)),
        )
    return config


def layer_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor outside the condition embedding, in the order the model uses them."""
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


def condition_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the condition embedding."""
    if config.classes is not None:
        return {CLASS_TABLE: (config.classes + 1, config.dim)}
    assert config.feature_size is not None
    return {
        TEXT_INPUT: (config.dim, config.feature_size),
        TEXT_OUTPUT: (config.dim, config.dim),
        TEXT_NULL: (config.prefix, config.feature_size),
    }


def _config(file: TensorFile, grid: int | None, heads: int | None) -> TransformerConfig:
    vocabulary, dim = _matrix(file, "tok_embeddings.weight")
    layers = len({name.split(".")[1] for name in file.tensors if name.startswith("layers.")})
    heads = _heads(file, layers, dim, heads)
    text = TEXT_INPUT in file.tensors
    return TransformerConfig(
        family="llamagen-t2i" if text else "llamagen-c2i",
        layers=layers,
        heads=heads,
        dim=dim,
        head_dim=dim // heads,
        ffn=_matrix(file, "layers.0.feed_forward.w1.weight")[0],
        vocabulary=vocabulary,
        grid=_grid(file, grid),
        prefix=_matrix(file, TEXT_NULL)[0] if text else 1,
        feature_size=_matrix(file, TEXT_INPUT)[1] if text else None,
        classes=None if text else _matrix(file, CLASS_TABLE)[0] - 1,
    )


def _matrix(file: TensorFile, name: str) -> tuple[int, int]:
    """Shape of the matrix `name`, from which a size of the model is read."""
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


def _heads(file: TensorFile, layers: int, dim: int, argument: int | None) -> int:
    heads = _told(file, "n_head", argument) or _PUBLISHED_HEADS.get((layers, dim))
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


def _grid(file: TensorFile, argument: int | None) -> int:
    grid = _told(file, "grid", argument)
    if grid is None or grid < 1:
        raise CheckpointError(
            f"{file.path}: the weights do not tell the grid of image tokens",
            found="no metadata grid" if grid is None else grid,
            expected="tokens along one side, such as 16 for an image of 256 pixels",
            fix="tell it with --target-grid or --drafter-grid, or in the file's metadata grid",
        )
    return grid


def _told(file: TensorFile, key: str, argument: int | None) -> int | None:
    """The number `key` from the file's metadata, else the argument."""
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
