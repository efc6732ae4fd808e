"""The transformer of LlamaGen and Tar in plain numpy, written from its equations, not from the graphs it checks.

The equations are those of LlamaGen (Sun et al., arXiv 2406.06525): pre-norm blocks with RMS norm (Zhang and Sennrich,
arXiv 1910.07467), SwiGLU (Shazeer, arXiv 2002.05202, equation 6) and rotary positions (Su et al., arXiv 2104.09864,
equation 34), here in two dimensions. Tar's AR-DTok (Han et al., arXiv 2506.18898) adds a table of absolute positions
to the input instead. Everything is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mulo_engines.cache_tensors import layer_caches, updated_name
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.reference.steps import Inputs, embedded, joined, linear, logits, parted

__all__ = ["ReferenceTransformer"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReferenceTransformer:
    """The transformer in `file`; it reads a weight where it uses it, so that a large model needs little memory.

    Attributes:
        config: its shape.
        file: its weights.
        hidden: whether a step also gives what the output projection reads, at every query.
    """

    config: TransformerConfig
    file: TensorFile
    hidden: bool = False

    def condition(self, condition: NDArray[Any]) -> Floats:
        """Prefix embeddings [2 N, P, D] of class ids [N] or features [N, P, E]; the null half comes last."""
        if self.config.condition == "ta_tok":
            features = np.concatenate([condition, np.zeros_like(condition)])
            return linear(features, self.weight("clip_proj.weight")) + self.weight("clip_proj.bias")
        if self.config.classes is not None:
            null = np.full_like(condition, self.config.classes)
            table = self.weight("cls_embedding.embedding_table.weight")
            return np.take(table, np.concatenate([condition, null])[:, None], axis=0)
        unconditional = self.weight("cls_embedding.uncond_embedding")
        features = np.concatenate([condition, np.broadcast_to(unconditional, condition.shape)])
        inner = linear(features, self.weight("cls_embedding.cap_proj.fc1.weight"))
        return linear(_gelu_tanh(inner), self.weight("cls_embedding.cap_proj.fc2.weight"))

    def run(self, inputs: Inputs) -> dict[str, Floats]:
        """One step on the inputs of the transformer graph; see `run_steps`."""
        (outputs,) = self.run_steps([inputs], inputs)
        return outputs

    def run_steps(self, steps: Sequence[Inputs], caches: Inputs) -> list[dict[str, Floats]]:
        """Steps one after another, the first on `caches`, each other one on those that the one before left.

        Inputs and outputs have the names of the transformer graph. Only in attention does a query depend on others,
        so that the queries of all steps go through a layer together.

        The cache is a log: the T queries overwrite the slots from `write_index`, every slot that the mask shows is
        attended to, whatever its position, and every other slot of the cache stays as it was. Keys are kept rotated
        and scaled by head_dim ** -1/4; behind a head's numbers the cache holds zeros up to its own width.
        """
        x = embedded(steps, self.file.array("tok_embeddings.weight"))
        if self.config.position_rows is not None:
            # The position of the last image token, which published code never feeds, has no row of its own.
            x = x + self.weight("abs_pe")[0, np.minimum(joined(steps, "position_ids"), self.config.position_rows - 1)]
        left: list[dict[str, Floats]] = [{} for _ in steps]
        for layer in range(self.config.layers):
            normed = self._norm(x, f"layers.{layer}.attention_norm.weight")
            x = x + self.attention(normed, layer, steps, caches, left)
            x = x + self.feed_forward(x, layer)
        hidden = self._norm(x, "norm.weight")
        told = [{"hidden": own} if self.hidden else {} for own in parted(hidden, steps)]
        given = zip(logits(hidden, steps, self.weight("output.weight")), told, left, strict=True)
        return [{"logits": rows, **states, **own} for rows, states, own in given]

    def attention(
        self, normed: Floats, layer: int, steps: Sequence[Inputs], caches: Inputs, left: Sequence[dict[str, Floats]]
    ) -> Floats:
        """The attention branch of what is `normed`; the layer's two new caches are added to what each step `left`."""
        projected = linear(normed, self.weight(f"layers.{layer}.attention.wqkv.weight"))
        query, key, value = (self._by_head(part) for part in np.split(projected, 3, axis=-1))
        query, key = (self._placed(part, joined(steps, "position_ids")) for part in (query, key))
        key_cache, value_cache = layer_caches(layer)
        keys, values = caches[key_cache], caches[value_cache]
        attended = []
        parts = zip(*(parted(part, steps, axis=2) for part in (query, key, value)), strict=True)
        for step, kept, (own_query, own_key, own_value) in zip(steps, left, parts, strict=True):
            keys = kept[updated_name(key_cache)] = _overwrite(keys, own_key, step["write_index"])
            values = kept[updated_name(value_cache)] = _overwrite(values, own_value, step["write_index"])
            attended.append(self._attend(own_query, keys, values, step["attn_mask"]))
        by_token = np.concatenate(attended, axis=2).transpose(0, 2, 1, 3).reshape(normed.shape)
        return linear(by_token, self.weight(f"layers.{layer}.attention.wo.weight"))

    def _attend(self, query: Floats, keys: Floats, values: Floats, mask: NDArray[np.bool_]) -> Floats:
        """What queries [B, H, T, head_dim] read from those slots [B, H, S, cache_width] that the mask shows them."""
        width = self.config.head_dim
        products = query @ keys[..., :width].swapaxes(-1, -2)
        scores = np.where(mask, products, np.float32(-np.inf))
        attended: Floats = _softmax(scores) @ values[..., :width]
        return attended

    def _by_head(self, x: Floats) -> Floats:
        """[B, T, D] -> [B, H, T, head_dim]."""
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.config.heads, self.config.head_dim).transpose(0, 2, 1, 3)

    def _placed(self, x: Floats, positions: NDArray[np.int64]) -> Floats:
        """Queries or keys with the scale of attention shared out between them, rotated where the model does that."""
        scale = np.float32(self.config.head_dim**-0.25)
        return x * scale if self.config.position_rows is not None else self._rotate(x, positions) * scale

    def _rotate(self, x: Floats, positions: NDArray[np.int64]) -> Floats:
        """Turn each adjacent pair of `x` [B, H, T, head_dim], as a complex number, by its token's row or column.

        Pairs of the first half of a head turn with the row, those of the second half with the column. At a prefix
        position the factor is zero, not one: the vector vanishes.
        """
        pairs = self.config.head_dim // 4
        frequency = 1.0 / self.config.rope_base ** (4.0 * np.arange(pairs) / self.config.head_dim)
        token = positions - self.config.prefix
        row, column = token // self.config.grid, token % self.config.grid
        angle = np.concatenate([row[..., None] * frequency, column[..., None] * frequency], axis=-1)
        factor = np.where(token[..., None] >= 0, np.exp(1j * angle), 0)[:, None]
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * factor
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape).astype(np.float32)

    def feed_forward(self, x: Floats, layer: int) -> Floats:
        """The feed-forward branch."""
        normed = self._norm(x, f"layers.{layer}.ffn_norm.weight")
        gate = linear(normed, self.weight(f"layers.{layer}.feed_forward.w1.weight"))
        up = linear(normed, self.weight(f"layers.{layer}.feed_forward.w3.weight"))
        sigmoid = np.float32(0.5) * (1 + np.tanh(gate / 2))
        return linear(gate * sigmoid * up, self.weight(f"layers.{layer}.feed_forward.w2.weight"))

    def _norm(self, x: Floats, name: str) -> Floats:
        root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(self.config.norm_eps))
        normed: Floats = x / root * self.weight(name)
        return normed

    def weight(self, name: str) -> Floats:
        """The weight `name` in float32."""
        return np.asarray(self.file.array(name), np.float32)


def _overwrite(cache: NDArray[Any], update: Floats, write_index: NDArray[np.int64]) -> Floats:
    """A copy of `cache` [B, H, S, cache_width] in which T slots from each sequence's write index are replaced."""
    copy = cache.astype(np.float32)
    _, _, length, width = update.shape
    for sequence, first in enumerate(write_index):
        copy[sequence, :, first : first + length, :width] = update[sequence]
    return copy


def _softmax(scores: Floats) -> Floats:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalised: Floats = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return normalised


def _gelu_tanh(x: Floats) -> Floats:
    """The tanh form of GELU (Hendrycks and Gimpel, arXiv 1606.08415, section 2)."""
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    activated: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return activated
