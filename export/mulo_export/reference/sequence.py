"""Whole sequences for a transformer graph or its reference: the inputs that teacher-force an image in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
from mulo_engines.cache_tensors import cache_names
from numpy.typing import NDArray

from mulo_export.checkpoints.transformer import TransformerConfig

__all__ = ["empty_caches", "guided", "raster_mask", "teacher_forced"]


def empty_caches(config: TransformerConfig, batch: int, slots: int, dtype: str = "float32") -> dict[str, NDArray[Any]]:
    """Zero-filled caches [batch, heads, slots, cache_width] under the names of the graph's inputs."""
    shape = (batch, config.heads, slots, config.cache_width)
    return {name: np.zeros(shape, dtype) for name in cache_names(config.layers)}


def raster_mask(config: TransformerConfig, prompt_mask: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Visibility [B, 1, positions, positions] where slot = position: each position sees itself and what is before.

    Args:
        config: the model.
        prompt_mask: [N, P], 0 where a prompt is padding. The mask of a prompt holds for its null half too, and a
            padded position still sees itself, or its row would be empty; B = 2 N. Without it, B = 1.
    """
    position = np.arange(config.positions)
    causal: NDArray[np.bool_] = position <= position[:, None]
    if prompt_mask is None:
        return causal[None, None]
    image = np.ones((2 * len(prompt_mask), config.grid**2), np.bool_)
    real = np.concatenate([np.tile(prompt_mask.astype(np.bool_), (2, 1)), image], axis=1)
    visible: NDArray[np.bool_] = (causal & real[:, None, None]) | (position == position[:, None])
    return visible


def teacher_forced(
    config: TransformerConfig, embeddings: NDArray[Any], tokens: NDArray[np.int64], mask: NDArray[np.bool_]
) -> dict[str, NDArray[Any]]:
    """Inputs of one step whose logits [B, n, V] predict all n tokens.

    Args:
        config: the model.
        embeddings: prefix embeddings [B, P, D].
        tokens: image tokens [N, n]; every half of the batch is fed the same ones.
        mask: visibility by position, from `raster_mask`.
    """
    batch, count = len(embeddings), tokens.shape[1]
    length = config.prefix + count - 1  # nothing follows the last token, so that it is not fed
    positions = np.tile(np.arange(length), (batch, 1))
    return {
        "cond_embeds": embeddings,
        "token_ids": np.tile(tokens[:, :-1], (batch // len(tokens), 1)),
        "position_ids": positions,
        "write_index": np.zeros(batch, np.int64),
        "attn_mask": np.ascontiguousarray(mask[:, :, :length, :length]),
        "logit_rows": np.ascontiguousarray(positions[:, config.prefix - 1 :]),
        **empty_caches(config, batch, length, embeddings.dtype.name),
    }


def guided(logits: NDArray[np.float32], scale: float) -> NDArray[np.float32]:
    """Classifier-free guidance (Ho and Salimans, arXiv 2207.12598, equation 6): [2 N, R, V] -> [N, R, V]."""
    conditional, null = np.split(logits, 2)
    return null + (conditional - null) * np.float32(scale)
