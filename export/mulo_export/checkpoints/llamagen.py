"""LlamaGen transformers (Sun et al., arXiv 2406.06525): what a checkpoint's keys and shapes say about the model."""

from __future__ import annotations

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import (
    TransformerConfig,
    check_image_side,
    layer_count,
    matrix,
    read_heads,
    side_in_name,
    told,
)

__all__ = [
    "CLASS_TABLE",
    "TEXT_INPUT",
    "TEXT_NULL",
    "TEXT_OUTPUT",
    "condition_shapes",
    "llamagen_config",
]

CLASS_TABLE = "cls_embedding.embedding_table.weight"
TEXT_INPUT = "cls_embedding.cap_proj.fc1.weight"
TEXT_OUTPUT = "cls_embedding.cap_proj.fc2.weight"
TEXT_NULL = "cls_embedding.uncond_embedding"


def llamagen_config(
    file: TensorFile, *, grid: int | None, heads: int | None, pixels_per_token: int
) -> TransformerConfig:
    """The config of the LlamaGen transformer in `file`, whose grid and heads the weights do not tell.

    Args:
        file: the checkpoint.
        grid: image tokens along one side, where neither the file's metadata nor its name tell.
        heads: attention heads, where neither the file's metadata nor a published size tell.
        pixels_per_token: of the tokenizer, to make a grid of the side of the image in the file's name.

    Raises:
        CheckpointError: heads or grid are not told, or differently by two.
    """
    vocabulary, dim = matrix(file, "tok_embeddings.weight")
    layers = layer_count(file)
    heads = read_heads(file, layers, dim, heads)
    text = TEXT_INPUT in file.tensors
    return TransformerConfig(
        family="llamagen-t2i" if text else "llamagen-c2i",
        layers=layers,
        heads=heads,
        dim=dim,
        ffn=matrix(file, "layers.0.feed_forward.w1.weight")[0],
        vocabulary=vocabulary,
        grid=_grid(file, grid, pixels_per_token),
        prefix=matrix(file, TEXT_NULL)[0] if text else 1,
        feature_size=matrix(file, TEXT_INPUT)[1] if text else None,
        classes=None if text else matrix(file, CLASS_TABLE)[0] - 1,
    )


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


def _grid(file: TensorFile, argument: int | None, pixels_per_token: int) -> int:
    grid, side = told(file, "grid", argument), side_in_name(file)
    if grid is None and side is not None:
        return side // pixels_per_token
    if grid is None or grid < 1:
        raise CheckpointError(
            f"{file.path}: the weights do not tell the grid of image tokens",
            found="no metadata grid, and no side of an image in the name" if grid is None else grid,
            expected="tokens along one side, such as 16 for an image of 256 pixels",
            fix="tell it with --target-grid or --drafter-grid, or in the file's metadata grid",
        )
    check_image_side(file, grid, pixels_per_token)
    return grid
