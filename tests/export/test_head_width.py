"""Heads of 100 numbers, as LlamaGen's 3B has them: padded in the caches, and otherwise as if they were not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import transformer_tensors
from golden_models import load_graph
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.reference.sequence import raster_mask, teacher_forced
from mulo_export.reference.transformer import ReferenceTransformer
from mulo_tools.synthetic import preset_config
from safetensors.numpy import save_file


@pytest.mark.parametrize(("width", "padded"), [(100, 104), (12, 16), (64, 64), (128, 128)])
def test_the_caches_have_the_next_multiple_of_eight(width: int, padded: int) -> None:
    assert TransformerConfig("llamagen-c2i", 1, 1, width, 8, 8, 2, 1, None, 3).cache_width == padded


def test_the_published_3b_has_heads_of_100() -> None:
    config = preset_config("3B", text=False, grid=24)
    assert (config.head_dim, config.cache_width) == (100, 104)


@pytest.mark.parametrize("heads", [2, 1])
def test_padded_heads_compute_what_the_reference_computes(heads: int, tmp_path: Path) -> None:
    tensors = transformer_tensors(np.random.default_rng(0), text=False, dim=100 * heads)
    save_file(tensors, tmp_path / "model", {"n_head": str(heads), "grid": "4"})
    file = read_tensor_file(tmp_path / "model")
    config = read_transformer(file)
    reference = ReferenceTransformer(config, file)
    tokens = np.random.default_rng(1).integers(config.vocabulary, size=(1, 16))
    step = teacher_forced(config, reference.condition(np.array([2])), tokens, raster_mask(config))
    expected = reference.run(step)
    with load_graph(transformer_graph(config, file, "model"), tmp_path / "model.onnx") as engine:
        found = engine.run_once(step)
    assert found["k_cache_out.0"].shape[-1] == 104
    assert not found["k_cache_out.0"][..., 100:].any()
    for name, value in expected.items():
        assert np.abs(found[name] - value).max() < 1e-4, name
