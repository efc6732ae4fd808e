"""The two-dimensional rotary table of LlamaGen, as constants for a graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.llamagen import TransformerConfig

__all__ = ["rope_tables"]


def rope_tables(config: TransformerConfig) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosines and sines [positions, head_dim / 2], one column per adjacent pair of a head.

    The first half of the pairs turns with the row of an image token, the second half with its column. Prefix
    positions are zero in BOTH tables: their queries and keys vanish, so that a prefix query attends evenly and a
    prefix key adds a logit of 0. Cosine 1 there ("no rotation") is another model.
    """
    pairs = config.head_dim // 4
    frequencies = config.rope_base ** (-np.arange(pairs, dtype=np.float64) / pairs)
    row, column = np.divmod(np.arange(config.grid**2), config.grid)
    angles = np.concatenate([np.outer(row, frequencies), np.outer(column, frequencies)], axis=1)
    prefix = np.zeros((config.prefix, 2 * pairs))
    cosines = np.concatenate([prefix, np.cos(angles)])
    sines = np.concatenate([prefix, np.sin(angles)])
    return cosines.astype(np.float32), sines.astype(np.float32)
