"""Checkpoints of the published sizes with random weights, to measure and test what real ones are too large for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mulo_export.checkpoints.ar_dtok import PUBLISHED_PREFIX
from mulo_export.checkpoints.read_transformer import transformer_shapes
from mulo_export.checkpoints.ta_tok import TaTokConfig, ta_tok_shapes
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.weights import TYPE_BYTES, TensorEntry, write_tensors
from numpy.typing import NDArray

__all__ = [
    "PRESETS",
    "TA_TOK",
    "Preset",
    "ar_dtok_config",
    "preset_config",
    "write_random_checkpoint",
    "write_random_ta_tok",
]

_VOCABULARY = 16384
_CLASSES = 1000
_TEXT_TOKENS = 120
_TEXT_FEATURES = 2048
_FFN_MULTIPLE = 256
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Preset:
    """A published size of LlamaGen (arXiv 2406.06525, table 2, and its code)."""

    layers: int
    heads: int
    dim: int


PRESETS: Mapping[str, Preset] = {
    "B": Preset(12, 12, 768),
    "L": Preset(24, 16, 1024),
    "XL": Preset(36, 20, 1280),
    "XXL": Preset(48, 24, 1536),
    "XXXL": Preset(48, 40, 2560),
    "1B": Preset(22, 32, 2048),
    "3B": Preset(24, 32, 3200),
    "7B": Preset(32, 32, 4096),
}

_AR_DTOK = Preset(30, 20, 1280)
"""Called LP in Tar's code."""
TA_TOK = TaTokConfig(
    codes=65536, code_size=1536, projected=1536, patch=1536, layers=3, dim=1152, heads=12, ffn=3072, side=16
)
"""The decoding part of Tar's published TA-Tok (arXiv 2506.18898)."""


def preset_config(name: str, *, text: bool, grid: int) -> TransformerConfig:
    """The config of LlamaGen's preset `name`, with text features or classes as its condition."""
    return _config(PRESETS[name], text=text, grid=grid)


def ar_dtok_config(*, grid: int) -> TransformerConfig:
    """The config of Tar's published AR-DTok for images of `grid` tokens along a side."""
    return replace(
        _config(_AR_DTOK, text=True, grid=grid),
        family="tar",
        prefix=PUBLISHED_PREFIX,
        feature_size=TA_TOK.dim,
        position_rows=PUBLISHED_PREFIX + grid * grid - 1,
    )


def _config(preset: Preset, *, text: bool, grid: int) -> TransformerConfig:
    return TransformerConfig(
        family="llamagen-t2i" if text else "llamagen-c2i",
        layers=preset.layers,
        heads=preset.heads,
        dim=preset.dim,
        ffn=_ffn(preset.dim),
        vocabulary=_VOCABULARY,
        grid=grid,
        prefix=_TEXT_TOKENS if text else 1,
        feature_size=_TEXT_FEATURES if text else None,
        classes=None if text else _CLASSES,
    )


def write_random_checkpoint(
    path: Path, config: TransformerConfig, *, dtype: str = "F32", sparse: bool = False, seed: int = 0
) -> None:
    """Write a transformer's checkpoint of random weights, one tensor in memory at a time.

    The weights repeat one block of normal numbers, scaled by their fan-in: as good as any for time and memory, not
    for statistics.

    Args:
        path: the safetensors file, which must not exist.
        config: the model.
        dtype: F32, F16 or BF16.
        sparse: leave the weights a hole of zeros, which takes no disk and no time.
        seed: of the block.
    """
    metadata = {"n_head": str(config.heads), "grid": str(config.grid)}
    _write_random(path, transformer_shapes(config), metadata, dtype, sparse, seed)


def write_random_ta_tok(path: Path, config: TaTokConfig = TA_TOK, *, seed: int = 0) -> None:
    """Likewise, of the part of a TA-Tok that decodes codes."""
    _write_random(path, ta_tok_shapes(config), {}, "F32", False, seed)


def _write_random(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    metadata: Mapping[str, str],
    dtype: str,
    sparse: bool,
    seed: int,
) -> None:
    entries = {name: _entry(dtype, shape) for name, shape in shapes.items()}
    block = np.random.default_rng(seed).standard_normal(_BLOCK, np.float32)
    weights = (_weight(block, shape, dtype) for shape in shapes.values())
    written = write_tensors(path, entries, () if sparse else weights, metadata, _ignore)
    if sparse:
        os.truncate(path, written.size + sum(entry.size for entry in entries.values()))


def _ffn(dim: int) -> int:
    """Inner width of the feed-forward block: two thirds of 4 * dim, rounded up to a multiple of 256."""
    return -(-(8 * dim // 3) // _FFN_MULTIPLE) * _FFN_MULTIPLE


def _entry(dtype: str, shape: tuple[int, ...]) -> TensorEntry:
    return TensorEntry(dtype, shape, int(np.prod(shape)) * TYPE_BYTES[dtype])


def _weight(block: NDArray[np.float32], shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """The block, repeated and scaled by the fan-in; norm weights are ones."""
    if len(shape) == 1:
        return _as_type(np.ones(shape, np.float32), dtype)
    return np.resize(_as_type(block / np.float32(np.sqrt(shape[1])), dtype), shape)


def _as_type(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    if dtype == "BF16":
        return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype({"F32": np.float32, "F16": np.float16}[dtype])


def _ignore(count: int) -> None:
    del count
