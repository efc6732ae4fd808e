"""What a checkpoint is, what it can be paired with and what it would need, told by its header alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mulo_export.checkpoints.ar_dtok import PUBLISHED_PREFIX
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.family import is_llamagen, is_ta_tok, is_vq
from mulo_export.checkpoints.read_transformer import read_transformer, transformer_shapes
from mulo_export.checkpoints.ta_tok import read_ta_tok, ta_tok_shapes
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import PRESETS, PUBLISHED_PIXELS_PER_TOKEN, TransformerConfig, side_in_name
from mulo_export.checkpoints.vq import read_vq, vq_shapes
from mulo_export.fold_ta_tok import folded_entries
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.sizes import transformer_bytes
from mulo_export.sources import RATIOS

__all__ = ["Inspection", "Need", "inspect_checkpoint"]

_PUBLISHED_GRIDS = (16, 24, 32)
_CACHE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a model takes at one precision.

    Attributes:
        precision: of the weights.
        weights: their bytes.
        caches: bytes of the KV cache of one image with classifier-free guidance, by the side of the image in pixels.
    """

    precision: Precision
    weights: int
    caches: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a checkpoint says.

    Attributes:
        facts: what it is, in words, by what the words are about.
        needs: what it takes, for every precision.
    """

    facts: Mapping[str, str]
    needs: tuple[Need, ...]


def inspect_checkpoint(path: Path, *, grid: int | None = None, heads: int | None = None) -> Inspection:
    """Inspect the checkpoint of a transformer, a VQ tokenizer or a TA-Tok, every key and shape of which is checked.

    Args:
        path: the file.
        grid: image tokens along one side, for LlamaGen, where the file does not tell.
        heads: attention heads, for a size that was never published.

    Raises:
        CheckpointError: it is another model, or not what it should be.
    """
    file = read_checkpoint(path)
    if is_vq(file):
        return _tokenizer(file)
    if is_ta_tok(file):
        return _ta_tok(file)
    told = grid or file.metadata.get("grid") or side_in_name(file)
    silent = is_llamagen(file) and told is None
    config = read_transformer(file, grid=_PUBLISHED_GRIDS[0] if silent else grid, heads=heads)
    return _transformer(file.only(transformer_shapes(config)), config, silent=silent)


def _transformer(file: TensorFile, config: TransformerConfig, *, silent: bool) -> Inspection:
    """`silent`: the file does not tell its grid, so that every published one is shown."""
    grids = _PUBLISHED_GRIDS if silent else (config.grid,)
    size = f"{config.layers} layers, {config.heads} heads of {config.head_dim}, width {config.dim}"
    facts = {
        "family": config.family,
        "size": f"{_preset(config)}: {size}",
        **_content(file),
        "grid": "the file does not tell; give --grid" if silent else f"{config.grid} x {config.grid} tokens",
        "prefix": f"{config.prefix} positions, from {_condition(config)}",
        "pairs with": _partners(config, silent=silent),
        "tokenizer": f"one of {config.vocabulary} codes",
    }
    return Inspection(facts, tuple(_need(file, config, precision, grids) for precision in Precision))


def _need(file: TensorFile, config: TransformerConfig, precision: Precision, grids: Sequence[int]) -> Need:
    caches = {grid * PUBLISHED_PIXELS_PER_TOKEN: _cache_bytes(config, grid, precision) for grid in grids}
    return Need(precision, transformer_bytes(file, precision), caches)


def _tokenizer(file: TensorFile) -> Inspection:
    config = read_vq(file)
    file = file.only(vq_shapes(config))
    facts = {
        "family": "VQ tokenizer",
        "size": f"{config.vocabulary} codes of {config.code_size}; {config.pixels_per_token} pixels along a token",
        **_content(file),
        "pairs with": f"transformers of {config.vocabulary} tokens",
    }
    # A bundle keeps the tokenizer in float32.
    return Inspection(facts, (Need(Precision.FP32, 4 * _parameters(file), {}),))


def _ta_tok(file: TensorFile) -> Inspection:
    config = read_ta_tok(file)
    facts = {
        "family": "TA-Tok, of which a bundle holds the decoding part",
        "size": f"{config.codes} codes; {config.layers} layers, {config.heads} heads, width {config.dim}",
        **_content(file.only(ta_tok_shapes(config))),
        "pairs with": f"AR-DTok transformers of Tar that read features of width {config.dim}",
    }
    needs = []
    for precision, traits in PRECISIONS.items():
        entries = folded_entries(config, PUBLISHED_PREFIX, traits.weight_type)
        needs.append(Need(precision, sum(entry.size for entry in entries.values()), {}))
    return Inspection(facts, tuple(needs))


def _content(file: TensorFile) -> dict[str, str]:
    types = sorted({record.dtype for record in file.tensors.values()})
    return {"parameters": f"{_parameters(file):,} in {len(file.tensors)} tensors", "types": ", ".join(types)}


def _parameters(file: TensorFile) -> int:
    return sum(math.prod(record.shape) for record in file.tensors.values())


def _preset(config: TransformerConfig) -> str:
    preset = PRESETS.get((config.layers, config.dim))
    return "no published size" if preset is None else preset.name


def _condition(config: TransformerConfig) -> str:
    if config.condition == "class":
        return f"one of {config.classes} classes"
    kind = "text" if config.condition == "text" else "TA-Tok"
    return f"{kind} features of width {config.feature_size}"


def _partners(config: TransformerConfig, *, silent: bool) -> str:
    kin = f"{config.family} with the same prefix and tokens"
    if silent:
        return f"{kin}, and a grid twice or four times as wide or narrow"
    targets = f"a target of grid {' or '.join(str(ratio * config.grid) for ratio in RATIOS)}"
    smaller = [str(config.grid // ratio) for ratio in RATIOS if config.grid % ratio == 0]
    drafters = f", or a drafter of grid {' or '.join(smaller)}" if smaller else ""
    return f"{kin}: {targets}{drafters}"


def _cache_bytes(config: TransformerConfig, grid: int, precision: Precision) -> int:
    """Bytes of keys and values of both guidance halves for every position of one image."""
    numbers = 2 * config.layers * config.heads * config.cache_width
    return 2 * numbers * (config.prefix + grid * grid) * _CACHE_BYTES[PRECISIONS[precision].cache_type]
