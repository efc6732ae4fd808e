"""The upsampler that is trained is the one that is exported, and it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.codebook import normalised_codebook
from mulo_export.reference.token_upsampler import ReferenceUpsampler
from mulo_export.sources import read_source_upsampler
from mulo_tools.reference.train_upsampler import UpsamplerRecipe, UpsamplerTraining
from mulo_tools.reference.training import Budget
from mulo_tools.reference.upsampler import TokenUpsampler, upsample
from mulo_tools.reference.vq import VQTokenizer
from mulo_tools.reference.weights_file import save_tokenizer, save_upsampler


def test_the_trained_network_draws_what_its_reference_does(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer, model = VQTokenizer().eval(), TokenUpsampler(2)
    torch.nn.init.normal_(model.conv_out.weight, std=0.1)
    save_tokenizer(tmp_path / "vq.safetensors", tokenizer.state_dict(), tokenizer.config)
    save_upsampler(tmp_path / "upsampler.safetensors", model.state_dict(), {})
    read = read_source_upsampler(tmp_path / "upsampler.safetensors")
    assert read is not None
    codes = torch.from_numpy(np.random.default_rng(0).integers(512, size=(2, 4, 4)))
    expected = ReferenceUpsampler(
        read.config, read.file, normalised_codebook(read_tensor_file(tmp_path / "vq.safetensors"))
    ).upsample(codes.numpy())
    found = upsample(model, tokenizer.quantize.directions().detach(), codes).numpy()
    assert (found == expected).mean() > 0.98


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    tokenizer = VQTokenizer().eval().requires_grad_(False)
    rng = np.random.default_rng(0)
    low = rng.integers(512, size=(8, 16)).astype(np.uint16)
    high = low.reshape(8, 4, 4)[:, ::-1].repeat(2, 1).repeat(2, 2).reshape(8, -1)
    training = UpsamplerTraining(tokenizer, 2, UpsamplerRecipe(batch=4))
    first = training.train_step(low, high, 0.7)
    training.run(low, high, Budget(steps=30))
    assert training.train_step(low, high, 0.7) < first
