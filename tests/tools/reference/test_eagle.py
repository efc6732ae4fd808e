"""The head that is trained is the head that is exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.reference.eagle import ReferenceEagle
from mulo_export.reference.sequence import empty_caches
from mulo_export.sources import read_source_eagle, read_source_transformer
from mulo_tools.reference.eagle import EagleHead, target_states
from mulo_tools.reference.gpt import GPT, GPTConfig
from mulo_tools.reference.train_eagle import EagleRecipe, EagleTraining, eagle_command
from mulo_tools.reference.train_gpt import TokenData
from mulo_tools.reference.training import Budget
from mulo_tools.reference.weights_file import save_eagle, save_gpt

CONFIG = GPTConfig(grid=4, layers=2, text_width=10, prefix=3, width=32, heads=2, hidden=48, vocabulary=24)


def data(count: int) -> TokenData:
    rng = np.random.default_rng(0)
    features = torch.from_numpy(rng.standard_normal((count, CONFIG.prefix, CONFIG.text_width)).astype(np.float32))
    tokens = rng.integers(CONFIG.vocabulary, size=(count, CONFIG.grid**2)).astype(np.uint16)
    return TokenData(features, torch.ones(count, CONFIG.prefix, dtype=torch.bool), tokens)


def test_the_trained_head_foretells_what_its_reference_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    target, head, examples = GPT(CONFIG), EagleHead(CONFIG), data(2)
    save_gpt(tmp_path / "target.safetensors", target.state_dict(), CONFIG)
    save_eagle(tmp_path / "head.safetensors", head.state_dict(), CONFIG, {})
    source = read_source_transformer(tmp_path / "target.safetensors")
    read = read_source_eagle(tmp_path / "head.safetensors", source)
    assert read is not None
    tokens = torch.from_numpy(examples.tokens.astype(np.int64))
    sequence, hidden = target_states(target, examples.features, examples.text_mask, tokens)
    foretold = head(sequence, hidden).detach().numpy()

    length = sequence.embedded.shape[1]
    positions = np.arange(1, length)
    config = replace(read.config, prefix=CONFIG.prefix)
    reference = ReferenceEagle(config, read.file, read_tensor_file(tmp_path / "target.safetensors"))
    step = reference.run(
        {
            "cond_embeds": sequence.embedded[:, 1 : CONFIG.prefix].detach().numpy(),
            "token_ids": tokens.numpy(),
            "position_ids": np.tile(positions, (2, 1)),
            "write_index": np.zeros(2, np.int64),
            "attn_mask": np.tril(np.ones((length - 1, length - 1), np.bool_))[None, None],
            "logit_rows": np.tile(np.arange(length - 1), (2, 1)),
            "previous_hidden": hidden[:, :-1].numpy(),
            **empty_caches(config, 2, length - 1, "float32"),
        }
    )
    np.testing.assert_allclose(step["hidden"], foretold, atol=1e-4)


def test_training_lowers_the_cross_entropy_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    torch.manual_seed(0)
    target, recipe = GPT(CONFIG).eval().requires_grad_(False), EagleRecipe(batch=8, checkpoint_every=5)
    training = EagleTraining(target, recipe)
    first = training.train_step(data(16), 0.0)
    training.run(data(16), Budget(steps=40), tmp_path / "head.checkpoint")
    assert training.train_step(data(16), 0.0) < first
    resumed = EagleTraining(target, recipe)
    resumed.restore(tmp_path / "head.checkpoint")
    assert resumed.step == 40


@pytest.mark.parametrize(
    ("options", "message"), [([], "holds no target-128px.safetensors"), (["--scenes", "3"], "--scenes")]
)
def test_what_cannot_be_trained_on_is_refused_before_anything_is_rendered(
    tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "vq.safetensors").touch()
    result = CliRunner().invoke(eagle_command, ["--weights", str(tmp_path), "--px", "128", *options])
    assert result.exit_code == 2
    assert message in result.output
