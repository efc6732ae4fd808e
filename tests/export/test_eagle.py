"""EAGLE heads: read as published, exported, and refused where they do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import eagle_tensors, tiny_bundle, tiny_checkpoints, tiny_options, tiny_sources
from mulo_engines.errors import CheckpointError
from mulo_export.bundle_writer import write_bundle
from mulo_export.checkpoints.eagle import read_eagle
from mulo_export.precision import Precision
from mulo_export.sources import read_source_eagle
from numpy.typing import NDArray
from safetensors.numpy import save_file

PUBLISHED = {
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w3": "mlp.up_proj",
    "feed_forward.w2": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}


def published(tensors: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The tensors as LANTERN's drafters name them: split projections, and a copy of the target's embeddings."""
    named = {name: value for name, value in tensors.items() if name.startswith("fc.")}
    for own, other in PUBLISHED.items():
        named[f"layers.0.{other}.weight"] = tensors[f"layers.0.{own}.weight"]
    parts = np.split(tensors["layers.0.attention.wqkv.weight"], 3)
    named |= {f"layers.0.self_attn.{part}_proj.weight": value for part, value in zip("qkv", parts, strict=True)}
    return named | {"embed_tokens.weight": np.zeros((64, 32), np.float32)}


def test_a_published_head_holds_the_same_tensors(tmp_path: Path) -> None:
    checkpoints = tiny_checkpoints(tmp_path)
    own = tiny_sources(checkpoints, eagle=True).eagle
    assert own is not None
    save_file(published(eagle_tensors(np.random.default_rng(3))), tmp_path / "published.safetensors")
    other = read_source_eagle(tmp_path / "published.safetensors", tiny_sources(checkpoints).target)
    assert other is not None
    assert other.config == own.config
    for name in own.file.tensors:
        np.testing.assert_array_equal(own.file.array(name), other.file.array(name))


def test_a_published_head_becomes_a_graph_within_its_tolerances(tmp_path: Path) -> None:
    checkpoints = tiny_checkpoints(tmp_path)
    save_file(published(eagle_tensors(np.random.default_rng(3))), checkpoints.eagle)
    sources = tiny_sources(checkpoints, eagle=True)
    manifest = write_bundle(sources, tiny_options(skip_parity=False), tmp_path / "bundle", lambda _: None)
    assert {record.metric for record in manifest.parity if record.graph == "eagle"} == {
        "relative error of logits",
        "relative error of hidden states",
        "relative error of caches",
    }


def test_a_head_of_another_width_is_refused(tmp_path: Path) -> None:
    target = tiny_sources(tiny_checkpoints(tmp_path)).target
    save_file(eagle_tensors(np.random.default_rng(3), dim=16), tmp_path / "narrow.safetensors")
    with pytest.raises(CheckpointError, match=r"fc\.weight is \[16, 32\], expected \[32, 64\]"):
        read_source_eagle(tmp_path / "narrow.safetensors", target)


def test_a_target_with_absolute_positions_takes_no_head(tmp_path: Path) -> None:
    sources = tiny_sources(tiny_checkpoints(tmp_path), eagle=True)
    assert sources.eagle is not None
    with pytest.raises(CheckpointError, match="turns its keys"):
        read_eagle(sources.eagle.file, replace(sources.target.config, position_rows=70))


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT4])
def test_a_quantized_target_takes_no_head(tmp_path: Path, precision: Precision) -> None:
    with pytest.raises(CheckpointError, match="output projection"):
        tiny_bundle(tmp_path, eagle=True, precision=precision)
    assert not (tmp_path / "bundle").exists()
