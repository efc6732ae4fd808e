"""TA-Tok's way from codes to features in torch, from the published description and torch's own layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch.nn import functional

__all__ = ["torch_features"]

State = Mapping[str, torch.Tensor]


def torch_features(tensors: Mapping[str, NDArray[Any]], codes: NDArray[Any], heads: int) -> NDArray[Any]:
    """Codes [N, P] -> features [N, P, D]."""
    state = {name: torch.from_numpy(array) for name, array in tensors.items()}
    with torch.no_grad():
        return _features(state, torch.from_numpy(codes), heads).numpy()


def _features(state: State, codes: torch.Tensor, heads: int) -> torch.Tensor:
    table = _linear(state, "bottleneck.regularizer.embedding_proj", state["bottleneck.regularizer.embedding.weight"])
    quantized = functional.embedding(codes, functional.normalize(table, dim=-1))
    x = _linear(state, "bottleneck.out_linear", quantized)
    x = _linear(state, "decoder.vision_model.embeddings.patch_embedding", x) + _positions(state, codes.shape[1])
    layer = 0
    while f"decoder.vision_model.encoder.layers.{layer}.layer_norm1.weight" in state:
        x = _block(state, f"decoder.vision_model.encoder.layers.{layer}", x, heads)
        layer += 1
    x = torch.tanh(_linear(state, "decode_task_layer.0", _norm(state, "decoder.vision_model.post_layernorm", x)))
    return _linear(state, "decode_task_layer.2", x)


def _positions(state: State, count: int) -> torch.Tensor:
    table = state["decoder.vision_model.embeddings.position_embedding.weight"]
    side, size = math.isqrt(len(table)), math.isqrt(count)
    image = table.reshape(side, side, -1).permute(2, 0, 1)[None]
    resized = functional.interpolate(image, (size, size), mode="bilinear", align_corners=False, antialias=True)
    return resized[0].permute(1, 2, 0).reshape(count, -1)


def _block(state: State, stem: str, x: torch.Tensor, heads: int) -> torch.Tensor:
    normed = _norm(state, f"{stem}.layer_norm1", x)
    query, key, value = (
        _linear(state, f"{stem}.self_attn.{name}_proj", normed).unflatten(-1, (heads, -1)).transpose(1, 2)
        for name in "qkv"
    )
    mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
    x = x + _linear(state, f"{stem}.self_attn.out_proj", mixed)
    inner = _linear(state, f"{stem}.mlp.fc1", _norm(state, f"{stem}.layer_norm2", x))
    return x + _linear(state, f"{stem}.mlp.fc2", functional.gelu(inner, approximate="tanh"))


def _norm(state: State, stem: str, x: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], state[f"{stem}.weight"], state[f"{stem}.bias"], eps=1e-6)


def _linear(state: State, stem: str, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, state[f"{stem}.weight"], state[f"{stem}.bias"])
