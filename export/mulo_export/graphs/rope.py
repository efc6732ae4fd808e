"""The two-dimensional rotary table of LlamaGen, as constants for a graph."""

from __future__ import annotations

import numpy as np
from mulo_engines.buckets import query_bucket, widest_pass
from numpy.typing import NDArray

from mulo_export.checkpoints.transformer import TransformerConfig

__all__ = ["rope_tables"]


def rope_tables(config: TransformerConfig) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines and sines [rows, cache_width / 2], one column per adjacent pair of a head, zero for its padding.

    The first half of the pairs turns with the row of an image token, the second half with its column. Prefix
    positions are zero in BOTH tables: their queries and keys vanish, so that a prefix query attends evenly and a
    prefix key adds a logit of 0. Cosine 1 there ("no rotation") is another model.

    Both tables carry the factor head_dim ** -1/4: queries and keys are rotated by the same tables, so that their
    product comes out divided by sqrt(head_dim).

    Behind the row of every position follow rows of NaN: ONNX Runtime refuses a pass of more queries than the tables
    have rows, and one that verifies a tree may try several tokens at each position. No position reads them; one that is
    out of range does, and the draw that follows refuses what comes of it.
    """
    pairs = config.head_dim // 4
    frequencies = config.rope_base ** (-np.arange(pairs, dtype=np.float64) / pairs)
    row, column = np.divmod(np.arange(config.grid**2), config.grid)
    angles = np.concatenate([np.outer(row, frequencies), np.outer(column, frequencies)], axis=1)
    prefix = np.zeros((config.prefix, 2 * pairs))
    scale = config.head_dim**-0.25
    cosines = np.concatenate([prefix, scale * np.cos(angles)])
    sines = np.concatenate([prefix, scale * np.sin(angles)])
    return _padded(cosines, config.cache_width // 2), _padded(sines, config.cache_width // 2)


def _padded(table: NDArray[np.float64], width: int) -> NDArray[np.float32]:
    positions, columns = table.shape
    padded = np.full((query_bucket(widest_pass(positions)), width), np.nan, np.float32)
    padded[:positions] = np.pad(table, ((0, 0), (0, width - columns)))
    return padded
