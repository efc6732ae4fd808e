"""The config and the tensors of a transformer of any family."""

from __future__ import annotations

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.ar_dtok import POSITIONS, ar_dtok_config, feature_shapes
from mulo_export.checkpoints.family import family_name, is_ar_dtok, is_llamagen
from mulo_export.checkpoints.llamagen import condition_shapes, llamagen_config
from mulo_export.checkpoints.shape_check import check_tensors
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import PUBLISHED_PIXELS_PER_TOKEN, TransformerConfig, layer_shapes

__all__ = ["prefix_shapes", "read_transformer", "transformer_shapes"]

_STRAY = ("freqs_cis",)


def read_transformer(
    file: TensorFile,
    *,
    grid: int | None = None,
    heads: int | None = None,
    prefix: int | None = None,
    pixels_per_token: int = PUBLISHED_PIXELS_PER_TOKEN,
) -> TransformerConfig:
    """The config of the transformer in `file`, every key and shape of which is checked.

    Args:
        file: the checkpoint.
        grid: image tokens along one side, for LlamaGen, whose weights do not tell.
        heads: attention heads, for a size that was never published.
        prefix: TA-Tok codes of an image, for Tar, where fewer are wanted than the model was sized for.
        pixels_per_token: of the tokenizer, to understand the side of the image in the file's name.

    Raises:
        CheckpointError: another architecture; missing, surplus or misshapen tensors, all of which are listed; heads or
            a grid that nothing tells, or that two tell differently.
    """
    if is_ar_dtok(file):
        config = ar_dtok_config(file, prefix=prefix, heads=heads, pixels_per_token=pixels_per_token)
    elif is_llamagen(file):
        config = llamagen_config(file, grid=grid, heads=heads, pixels_per_token=pixels_per_token)
    else:
        raise CheckpointError(
            f"{file.path}: not a transformer of LlamaGen or Tar",
            found=family_name(file),
            expected="tok_embeddings.weight, and cls_embedding.* (LlamaGen) or abs_pe and clip_proj.* (Tar)",
            fix="give a LlamaGen class- or text-conditional checkpoint, or an AR-DTok",
        )
    check_tensors(file, transformer_shapes(config), _STRAY, f"a {config.family} transformer of {config.layers} layers")
    return config


def transformer_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the model."""
    shapes = layer_shapes(config) | prefix_shapes(config)
    if config.position_rows is not None:
        shapes[POSITIONS] = (1, config.position_rows, config.dim)
    return shapes


def prefix_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that makes the prefix of a condition."""
    return feature_shapes(config) if config.condition == "ta_tok" else condition_shapes(config)
