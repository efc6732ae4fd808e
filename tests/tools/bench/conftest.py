"""A tiny bundle with random weights that reads the captions of scenes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_checkpoints, tiny_options, tiny_sources
from mulo_export.bundle_writer import write_bundle
from mulo_tools.reference.vocabulary import PREFIX_LENGTH, scene_prompt_encoder
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture(scope="session")
def scene_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drafts 4 x 4 tokens for a target of 8 x 8, which makes images of 32 px."""
    folder = tmp_path_factory.mktemp("scenes")
    checkpoints = tiny_checkpoints(folder)
    assert checkpoints.prompt is not None
    scene_prompt_encoder().save(checkpoints.prompt)
    for path in (checkpoints.drafter, checkpoints.target):
        _read_captions(path)
    write_bundle(tiny_sources(checkpoints), tiny_options(), folder / "bundle", lambda _: None)
    return folder / "bundle"


def _read_captions(path: Path) -> None:
    """Give the transformer at `path` a condition of the captions' width and length."""
    rng, width = np.random.default_rng(3), scene_prompt_encoder().width
    tensors = load_file(path)
    dim = len(tensors["norm.weight"])
    tensors["cls_embedding.cap_proj.fc1.weight"] = rng.standard_normal((dim, width), np.float32)
    tensors["cls_embedding.uncond_embedding"] = rng.standard_normal((PREFIX_LENGTH, width), np.float32)
    with safe_open(path, "np") as file:
        metadata = file.metadata()
    save_file(tensors, path, metadata)
