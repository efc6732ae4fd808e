"""AR-DTok, the transformer of Tar (Han et al., arXiv 2506.18898) that draws VQ tokens after TA-Tok features.

It is LlamaGen's transformer without rotations: a table of absolute positions, learned or fixed, is added to the input.
"""

from __future__ import annotations

import math

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import (
    TransformerConfig,
    check_image_side,
    layer_count,
    matrix,
    read_heads,
    told,
)

__all__ = [
    "FEATURE_BIAS",
    "FEATURE_WEIGHT",
    "POSITIONS",
    "PUBLISHED_PREFIX",
    "ar_dtok_config",
    "feature_shapes",
]

POSITIONS = "abs_pe"
FEATURE_WEIGHT = "clip_proj.weight"
FEATURE_BIAS = "clip_proj.bias"
PUBLISHED_PREFIX = 729
"""TA-Tok features that the published models were sized for: 27 x 27."""


def ar_dtok_config(
    file: TensorFile, *, prefix: int | None, heads: int | None, pixels_per_token: int
) -> TransformerConfig:
    """The config of the AR-DTok in `file`, whose grid its table of positions tells.

    Args:
        file: the checkpoint.
        prefix: TA-Tok codes of an image, where fewer are wanted than the model was sized for.
        heads: attention heads, where neither the file's arguments nor a published size tell.
        pixels_per_token: of the tokenizer, to check the side of the image in the file's name.

    Raises:
        CheckpointError: heads or grid are not told, or differently by two, or `prefix` is too long.
    """
    vocabulary, dim = matrix(file, "tok_embeddings.weight")
    layers = layer_count(file)
    heads = read_heads(file, layers, dim, heads)
    longest = told(file, "cls_token_num", None) or PUBLISHED_PREFIX
    rows = _position_rows(file)
    grid = _grid(file, rows, longest)
    check_image_side(file, grid, pixels_per_token)
    return TransformerConfig(
        family="tar",
        layers=layers,
        heads=heads,
        dim=dim,
        ffn=matrix(file, "layers.0.feed_forward.w1.weight")[0],
        vocabulary=vocabulary,
        grid=grid,
        prefix=_prefix(file, prefix, longest),
        feature_size=matrix(file, FEATURE_WEIGHT)[1],
        classes=None,
        position_rows=rows,
    )


def feature_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of the tensors that make prefix embeddings of features."""
    assert config.feature_size is not None
    return {FEATURE_WEIGHT: (config.dim, config.feature_size), FEATURE_BIAS: (config.dim,)}


def _position_rows(file: TensorFile) -> int:
    shape = file.tensors[POSITIONS].shape
    if len(shape) != 3:
        raise CheckpointError(
            f"{file.path}: tensor {POSITIONS!r} tells a size of the model and cannot be read",
            found=list(shape),
            expected="[1, positions, width]",
            fix="use the checkpoint's original file",
        )
    return shape[1]


def _grid(file: TensorFile, rows: int, prefix: int) -> int:
    """The side of the square of tokens: there is a row for every condition and every image position but the last."""
    tokens = rows + 1 - prefix
    grid = math.isqrt(max(tokens, 0))
    if grid < 1 or grid * grid != tokens or told(file, "max_seq_len", None) not in (None, tokens):
        raise CheckpointError(
            f"{file.path}: the table of positions fits no square grid of image tokens",
            found=f"{rows} rows, of which {prefix} are the condition's",
            expected=f"{prefix} - 1 and a square number, such as {prefix - 1 + 16 * 16}",
            fix="use the checkpoint's original file, whose arguments tell cls_token_num",
        )
    return grid


def _prefix(file: TensorFile, argument: int | None, longest: int) -> int:
    if argument is not None and argument > longest:
        raise CheckpointError(
            f"{file.path}: the model has no positions for so many TA-Tok codes",
            found=argument,
            expected=f"at most {longest}",
            fix="give fewer --codes",
        )
    return argument or longest
