"""LlamaGen in Hugging Face's names, as LANTERN publishes it, is the same model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import transformer_tensors
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.weights import convert_weights
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from torch_checkpoints import save_layout

Tensors = dict[str, NDArray[Any]]
NAMES = {
    "tok_embeddings": "model.embed_tokens",
    "norm": "model.norm",
    "output": "lm_head",
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w3": "mlp.up_proj",
    "feed_forward.w2": "mlp.down_proj",
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def _repackaged(tensors: Tensors) -> Tensors:
    repackaged: Tensors = {}
    for name, array in tensors.items():
        layer = re.match(r"layers\.\d+\.", name)
        stem, _, end = name.removeprefix(layer[0] if layer else "").rpartition(".")
        start = f"model.{layer[0]}" if layer else ""
        if stem == "attention.wqkv":
            for letter, part in zip("qkv", np.split(array, 3), strict=True):
                repackaged[f"{start}self_attn.{letter}_proj.weight"] = part.copy()
        elif name.startswith("cls_embedding."):
            repackaged[f"model.{name}"] = array
        else:
            repackaged[f"{start}{NAMES[stem]}.{end}"] = array
    return repackaged


@pytest.mark.parametrize("text", [True, False])
def test_the_repackaged_model_is_the_original(text: bool, tmp_path: Path) -> None:
    original = transformer_tensors(np.random.default_rng(0), text=text)
    save_file(_repackaged(original), tmp_path / "model.safetensors", {"format": "pt"})
    save_layout(tmp_path / "model.pt", _repackaged(original), "bare")
    for name in ("model.safetensors", "model.pt"):
        file = read_checkpoint(tmp_path / name)
        assert not file.verbatim
        assert file.tensors.keys() == original.keys()
        assert all(np.array_equal(file.array(key), array) for key, array in original.items())
        assert read_transformer(file, grid=8, heads=2).layers == 2


def test_it_enters_a_bundle_under_the_original_names(tmp_path: Path) -> None:
    original = transformer_tensors(np.random.default_rng(0))
    save_file(_repackaged(original), tmp_path / "model.safetensors")
    convert_weights(read_checkpoint(tmp_path / "model.safetensors"), tmp_path / "written", "F32", lambda _: None)
    written = load_file(tmp_path / "written")
    assert all(np.array_equal(written[key], array) for key, array in original.items())


@pytest.mark.parametrize("part", ["k", "v"])
def test_projections_that_do_not_belong_together_are_told_by_name(part: str, tmp_path: Path) -> None:
    tensors = _repackaged(transformer_tensors(np.random.default_rng(0)))
    tensors[f"model.layers.1.self_attn.{part}_proj.weight"] = np.zeros((8, 32), np.float32)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=rf"(?s)layers.1.attention.wqkv.weight is missing.*1.self_attn.{part}_proj"
    ):
        read_transformer(read_checkpoint(tmp_path / "model.safetensors"), grid=8, heads=2)
