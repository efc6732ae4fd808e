"""TA-Tok's way from codes to features in plain numpy, written from its equations, step by step and unfolded.

A code's vector is projected and brought to length one (SimVQ, Zhu et al., arXiv 2411.02038), projected again, and goes
through the vision transformer of SigLIP2 (Tschannen et al., arXiv 2502.14786) and Tar's task layer (Han et al.,
arXiv 2506.18898). Everything is float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.ta_tok import TaTokConfig
from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["ReferenceTaTok"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReferenceTaTok:
    """The TA-Tok in `file`; it reads a weight where it uses it."""

    config: TaTokConfig
    file: TensorFile

    def features(self, codes: NDArray[np.int64]) -> Floats:
        """Codes [N, P], P a square number, in raster order -> features [N, P, D]."""
        vectors = np.asarray(self.file.array("bottleneck.regularizer.embedding.weight")[codes], np.float32)
        projected = self._linear("bottleneck.regularizer.embedding_proj", vectors)
        directions = projected / np.linalg.norm(projected, axis=-1, keepdims=True)
        patches = self._linear("bottleneck.out_linear", directions)
        x = self._linear("decoder.vision_model.embeddings.patch_embedding", patches) + self._positions(codes.shape[1])
        for layer in range(self.config.layers):
            x = self._block(f"decoder.vision_model.encoder.layers.{layer}", x)
        x = self._norm("decoder.vision_model.post_layernorm", x)
        return self._linear("decode_task_layer.2", np.tanh(self._linear("decode_task_layer.0", x)))

    def _positions(self, count: int) -> Floats:
        """The learned positions, resized from their square to one of `count` cells, row by row, column by column."""
        side, size = self.config.side, math.isqrt(count)
        square = self._weight("decoder.vision_model.embeddings.position_embedding.weight").reshape(side, side, -1)
        rows = np.stack([_blend(square, cell, size) for cell in range(size)])
        cells = np.stack([_blend(rows.swapaxes(0, 1), cell, size) for cell in range(size)], axis=1)
        return cells.reshape(count, -1).astype(np.float32)

    def _block(self, stem: str, x: Floats) -> Floats:
        x = x + self._attention(f"{stem}.self_attn", self._norm(f"{stem}.layer_norm1", x))
        inner = self._linear(f"{stem}.mlp.fc1", self._norm(f"{stem}.layer_norm2", x))
        return x + self._linear(f"{stem}.mlp.fc2", _gelu_tanh(inner))

    def _attention(self, stem: str, x: Floats) -> Floats:
        batch, length, dim = x.shape
        shape = (batch, length, self.config.heads, dim // self.config.heads)
        query, key, value = (self._linear(f"{stem}.{name}_proj", x).reshape(shape) for name in "qkv")
        scores = np.einsum("nihd,njhd->nhij", query, key, optimize=True) / np.float32(math.sqrt(shape[-1]))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = np.einsum("nhij,njhd->nihd", weights, value, optimize=True)
        return self._linear(f"{stem}.out_proj", mixed.reshape(x.shape))

    def _norm(self, stem: str, x: Floats) -> Floats:
        mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
        normal = (x - mean) / np.sqrt(variance + np.float32(self.config.norm_eps))
        scaled: Floats = normal * self._weight(f"{stem}.weight") + self._weight(f"{stem}.bias")
        return scaled

    def _linear(self, stem: str, x: Floats) -> Floats:
        product: Floats = x @ self._weight(f"{stem}.weight").T + self._weight(f"{stem}.bias")
        return product

    def _weight(self, name: str) -> Floats:
        return np.asarray(self.file.array(name), np.float32)


def _blend(table: NDArray[Any], cell: int, size: int) -> NDArray[Any]:
    """Cell `cell` of `size` along the first axis of `table`: its neighbours, weighted by their distance.

    A neighbour's weight falls linearly to zero at the distance of one step of the table, or of one cell where that is
    more; there is nothing beyond the edges.
    """
    step = len(table) / size
    reach = max(step, 1.0)
    centre = (cell + 0.5) * step - 0.5
    near = [index for index in range(len(table)) if abs(index - centre) < reach]
    weights = [1 - abs(index - centre) / reach for index in near]
    blended: NDArray[Any] = np.tensordot(np.array(weights) / sum(weights), table[near], axes=1)
    return blended


def _gelu_tanh(x: Floats) -> Floats:
    """The tanh form of GELU (Hendrycks and Gimpel, arXiv 1606.08415, section 2)."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
    activated: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return activated
