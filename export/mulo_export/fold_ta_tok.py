"""TA-Tok's weights as a bundle has them: what lies between codes and the decoder's first layer becomes one table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.ta_tok import (
    CODEBOOK,
    OUTPUT,
    PATCH,
    POSITIONS,
    PROJECTION,
    TaTokConfig,
    ta_tok_shapes,
)
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.hashing import WrittenFile
from mulo_export.weights import TYPE_BYTES, Progress, TensorEntry, cast_values, write_tensors

__all__ = ["FOLDED_TABLE", "RESIZED_POSITIONS", "fold_ta_tok", "folded_entries", "resize_matrix"]

FOLDED_TABLE = "folded_table"
"""What the decoder embeds of every code, [codes, D]."""
RESIZED_POSITIONS = "resized_positions"
"""The decoder's position table at the size of the prefix, [P, D]."""

_ROWS = 4096
"""Codes folded at once, so that no second table is in memory."""
_NORM_FLOOR = 1e-12


def fold_ta_tok(
    config: TaTokConfig, file: TensorFile, prefix: int, destination: Path, dtype: str, progress: Progress
) -> WrittenFile:
    """Write the weights that decode `prefix` codes of an image into `destination`, as `dtype` (F32, F16 or BF16).

    Raises:
        CheckpointError: a value is not finite, or too large for float16.
    """
    entries = folded_entries(config, prefix, dtype)
    values = (cast_values(file.path, name, value, dtype) for name, value in _tensors(config, file, prefix))
    return write_tensors(destination, entries, values, {}, progress)


def folded_entries(config: TaTokConfig, prefix: int, dtype: str) -> dict[str, TensorEntry]:
    """The header's entries of the file that `fold_ta_tok` writes."""
    shapes = {FOLDED_TABLE: (config.codes, config.dim), RESIZED_POSITIONS: (prefix, config.dim), **_kept(config)}
    return {name: TensorEntry(dtype, shape, math.prod(shape) * TYPE_BYTES[dtype]) for name, shape in shapes.items()}


def resize_matrix(size: int, source: int) -> NDArray[np.float64]:
    """The matrix [size, source] of linear interpolation along one axis, averaging where it shrinks.

    This is PyTorch's `interpolate` with antialias=True and align_corners=False: a triangle as wide as the larger of
    the two steps, cut at the edges and normalised.
    """
    step = source / size
    width = max(step, 1.0)
    centres = step * (np.arange(size)[:, None] + 0.5)
    weights = np.maximum(1 - np.abs(np.arange(source) + 0.5 - centres) / width, 0)
    normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def _kept(config: TaTokConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that enters as it is."""
    folded = (
        CODEBOOK,
        POSITIONS,
        *(f"{stem}.{end}" for stem in (PROJECTION, OUTPUT, PATCH) for end in ("weight", "bias")),
    )
    return {name: shape for name, shape in ta_tok_shapes(config).items() if name not in folded}


def _tensors(config: TaTokConfig, file: TensorFile, prefix: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every tensor of the new file in order."""
    yield FOLDED_TABLE, _folded_table(config, file)
    yield RESIZED_POSITIONS, _resized_positions(config, file, prefix)
    yield from ((name, file.array(name)) for name in _kept(config))


def _folded_table(config: TaTokConfig, file: TensorFile) -> NDArray[np.float32]:
    """What the decoder embeds of every code [codes, D]: projected, normalised, then through two linear layers."""
    codebook, table = file.array(CODEBOOK), np.empty((config.codes, config.dim), np.float32)
    weight, bias = _linear_after_linear(file)
    for first in range(0, config.codes, _ROWS):
        projected = _through(file, PROJECTION, np.asarray(codebook[first : first + _ROWS], np.float32))
        lengths = np.linalg.norm(projected, axis=1, keepdims=True)
        table[first : first + _ROWS] = projected / np.maximum(lengths, _NORM_FLOOR) @ weight.T + bias
    return table


def _linear_after_linear(file: TensorFile) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight and bias of the one layer that does what the bottleneck's output and the patch embedding do in turn."""
    outer, outer_bias = (np.asarray(file.array(f"{PATCH}.{end}"), np.float64) for end in ("weight", "bias"))
    inner, inner_bias = (np.asarray(file.array(f"{OUTPUT}.{end}"), np.float64) for end in ("weight", "bias"))
    return (outer @ inner).astype(np.float32), (outer @ inner_bias + outer_bias).astype(np.float32)


def _through(file: TensorFile, stem: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    weight, bias = (np.asarray(file.array(f"{stem}.{end}"), np.float32) for end in ("weight", "bias"))
    product: NDArray[np.float32] = x @ weight.T + bias
    return product


def _resized_positions(config: TaTokConfig, file: TensorFile, prefix: int) -> NDArray[np.float32]:
    """The learned table [side * side, D] at the sides of a square of `prefix` codes: [prefix, D]."""
    rows = resize_matrix(math.isqrt(prefix), config.side)
    table = np.asarray(file.array(POSITIONS), np.float64).reshape(config.side, config.side, config.dim)
    resized: NDArray[np.float64] = np.einsum("ir,jc,rcd->ijd", rows, rows, table, optimize=True)
    return resized.reshape(prefix, config.dim).astype(np.float32)
