"""CLIP scores come from a folder on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from mulo_tools.output import write_png
from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPProcessor, CLIPTokenizer

RunMulo = Callable[..., Result]
WORDS = ("<|startoftext|>", "<|endoftext|>", "a", "r", "e", "d", "a</w>", "d</w>", "re", "red</w>")
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP of random weights, of one layer each."""
    path = tmp_path_factory.mktemp("clip")
    (path / "vocab.json").write_text(json.dumps({word: index for index, word in enumerate(WORDS)}))
    (path / "merges.txt").write_text("#version: 0.2\nr e\nre d</w>\n")
    torch.manual_seed(0)
    text = {"vocab_size": len(WORDS), "max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 1}
    config = CLIPConfig(
        text_config={**SIZES, **text}, vision_config={**SIZES, "image_size": 32, "patch_size": 16}, projection_dim=8
    )
    CLIPModel(config).save_pretrained(path)
    images = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    tokenizer = CLIPTokenizer(vocab=str(path / "vocab.json"), merges=str(path / "merges.txt"))
    CLIPProcessor(images, tokenizer).save_pretrained(path)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("00000-0", "00000-1", "00001-0"):
        write_png(tmp_path / f"images/{name}.png", rng.integers(0, 255, (40, 48, 3), np.uint8))
    return tmp_path / "images"


def score(mulo: RunMulo, clip: Path, images: Path, *prompts: str) -> Result:
    (images.parent / "prompts.txt").write_text("\n".join(prompts) + "\n")
    options = ("--prompts", images.parent / "prompts.txt", "--model", clip, "--batch", 2)
    return mulo("evaluate", "clip", "--images", images, *options)


def test_every_image_is_compared_with_its_prompt(mulo: RunMulo, clip: Path, images: Path) -> None:
    found = []
    for prompts in (("a red", "red a"), ("red a", "a red")):
        result = score(mulo, clip, images, *prompts)
        assert result.exit_code == 0, result.output
        found.append(json.loads(result.stdout.splitlines()[-1]))
    assert found[0]["images"] == 3
    assert all(-100 <= each["clip_score"] <= 100 for each in found)
    assert found[0]["clip_score"] != found[1]["clip_score"]


def test_an_image_without_a_prompt_is_refused(mulo: RunMulo, clip: Path, images: Path) -> None:
    result = score(mulo, clip, images, "a red")
    assert result.exit_code == 2
    assert "has no prompt" in result.stderr


def test_a_folder_without_a_clip_is_refused(mulo: RunMulo, images: Path, tmp_path: Path) -> None:
    result = score(mulo, tmp_path, images, "a red", "red a")
    assert result.exit_code == 2
    assert "no CLIP can be read" in result.stderr
