"""`mulo-export inspect` tells what a checkpoint is from its header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import transformer_tensors
from click.testing import CliRunner, Result
from mulo_export import cli
from mulo_tools.synthetic import preset_config, write_random_checkpoint
from mulo_tools.synthetic_vq import write_random_tokenizer
from safetensors.numpy import save_file
from tar_checkpoints import tar_checkpoints


def _inspect(path: Path, *options: str) -> Result:
    return CliRunner().invoke(cli.main, ["inspect", str(path), *options])


def _told(path: Path, *options: str) -> dict[str, Any]:
    result = _inspect(path, "--json", *options)
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


@pytest.mark.parametrize(
    ("preset", "text", "parameters"),
    [
        ("B", False, "110,888,448"),
        ("XL", True, "777,923,840"),
        ("3B", False, "3,096,659,200"),
        ("7B", True, "6,635,900,928"),
    ],
)
def test_a_published_llamagen_is_recognised_without_loading_it(
    preset: str, text: bool, parameters: str, tmp_path: Path
) -> None:
    config = preset_config(preset, text=text, grid=32)
    write_random_checkpoint(tmp_path / "model.safetensors", config, sparse=True)
    told = _told(tmp_path / "model.safetensors")
    facts, needs = told["facts"], {need["precision"]: need for need in told["needs"]}
    assert facts["family"] == config.family
    assert facts["size"].startswith(f"{preset}: {config.layers} layers, {config.heads} heads of {config.head_dim}")
    assert facts["parameters"].startswith(parameters)
    assert (facts["types"], facts["grid"]) == ("F32", "32 x 32 tokens")
    assert "a target of grid 64 or 128, or a drafter of grid 16 or 8" in facts["pairs with"]
    assert needs["fp32"]["weights"] == 2 * needs["fp16"]["weights"] == 4 * int(parameters.replace(",", ""))
    assert needs["fp16"]["weights"] > needs["int8"]["weights"] > needs["int4"]["weights"]
    slots = config.prefix + 32 * 32
    halves = 2 * 2 * config.layers * config.heads * config.cache_width * slots * 2
    assert needs["fp16"]["caches"] == {"512": halves}


def test_every_published_side_is_shown_where_the_file_does_not_tell_its_own(tmp_path: Path) -> None:
    save_file(transformer_tensors(np.random.default_rng(0)), tmp_path / "model.safetensors", {"n_head": "2"})
    told = _told(tmp_path / "model.safetensors")
    assert told["facts"]["grid"] == "the file does not tell; give --grid"
    assert list(told["needs"][0]["caches"]) == ["256", "384", "512"]
    assert _told(tmp_path / "model.safetensors", "--grid", "24")["facts"]["grid"] == "24 x 24 tokens"
    save_file(transformer_tensors(np.random.default_rng(0)), tmp_path / "silent.safetensors")
    told = _told(tmp_path / "silent.safetensors", "--heads", "4")
    assert told["facts"]["size"].startswith("no published size: 2 layers")


def test_tars_files_are_recognised(tmp_path: Path) -> None:
    paths = tar_checkpoints(tmp_path)
    low = _told(paths.drafter)["facts"]
    assert (low["family"], low["grid"]) == ("tar", "4 x 4 tokens")
    assert low["prefix"] == "9 positions, from TA-Tok features of width 192"
    assert "50 codes" in _told(paths.ta_tok)["facts"]["size"]
    assert "features of width 192" in _told(paths.ta_tok)["facts"]["pairs with"]
    assert "transformers of 64 tokens" in _told(paths.vq)["facts"]["pairs with"]


def test_the_tokenizers_scale_is_told(tmp_path: Path) -> None:
    write_random_tokenizer(tmp_path / "vq.safetensors")
    assert "16384 codes of 8; 16 pixels along a token" in _told(tmp_path / "vq.safetensors")["facts"]["size"]


def test_a_table_shows_the_same(tmp_path: Path) -> None:
    write_random_checkpoint(tmp_path / "c2i_B_256.safetensors", preset_config("B", text=False, grid=16), sparse=True)
    result = _inspect(tmp_path / "c2i_B_256.safetensors")
    assert result.exit_code == 0, result.output
    for word in ("110,888,448", "KV cache, 256 px", "int4", "one of 1000 classes"):
        assert word in result.stdout


def test_what_is_not_exported_is_refused_by_what_it_is(tmp_path: Path) -> None:
    tensors = {"model.layers.0.self_attn.q_proj.bias": np.zeros(3, np.float32)}
    save_file(tensors, tmp_path / "model.safetensors")
    result = _inspect(tmp_path / "model.safetensors")
    assert result.exit_code == 3
    assert "Qwen2.5, the language model of Tar" in result.stderr
