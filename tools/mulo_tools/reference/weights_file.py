"""Trained weights as safetensors files: tensors under their published names, sizes that tensors hide as metadata."""

import os
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from mulo_tools.reference.gpt import GPT, NORM_EPS, ROPE_BASE, GPTConfig
from mulo_tools.reference.vq import NORM_EPS as VQ_NORM_EPS
from mulo_tools.reference.vq import VQConfig, VQTokenizer


def save_tokenizer(path: Path, weights: dict[str, Tensor], config: VQConfig) -> None:
    """Publish the tokenizer's weights."""
    _publish(path, weights, {"family": "vq", "groups": str(config.groups), "norm_eps": str(VQ_NORM_EPS)})


def load_tokenizer(path: Path) -> VQTokenizer:
    """The tokenizer that `save_tokenizer` wrote, ready to encode and decode."""
    tokenizer = VQTokenizer()
    tokenizer.load_state_dict(load_file(path))
    return tokenizer.eval().requires_grad_(False)


def save_gpt(path: Path, weights: dict[str, Tensor], config: GPTConfig) -> None:
    """Publish a GPT's weights."""
    metadata = {
        "family": "llamagen-t2i",
        "n_head": str(config.heads),
        "grid": str(config.grid),
        "norm_eps": str(NORM_EPS),
        "rope_base": str(ROPE_BASE),
    }
    _publish(path, weights, metadata)


def load_gpt(path: Path) -> GPT:
    """The GPT that `save_gpt` wrote, its sizes read from tensors and metadata."""
    weights = load_file(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    prefix, text_width = weights["cls_embedding.uncond_embedding"].shape
    vocabulary, width = weights["output.weight"].shape
    config = GPTConfig(
        grid=int(metadata["grid"]),
        layers=sum(name.endswith("ffn_norm.weight") for name in weights),
        text_width=text_width,
        prefix=prefix,
        width=width,
        heads=int(metadata["n_head"]),
        hidden=len(weights["layers.0.feed_forward.w1.weight"]),
        vocabulary=vocabulary,
    )
    model = GPT(config)
    model.load_state_dict(weights)
    return model.eval().requires_grad_(False)


def save_eagle(path: Path, weights: dict[str, Tensor], config: GPTConfig, record: dict[str, object]) -> None:
    """Publish the weights of an EAGLE-1 head, and how it was trained."""
    metadata = {"family": "eagle", "n_head": str(config.heads), "norm_eps": str(NORM_EPS)}
    _publish(path, weights, metadata | {name: str(value) for name, value in record.items()})


def save_upsampler(path: Path, weights: dict[str, Tensor], record: dict[str, object]) -> None:
    """Publish the weights of a learned upsampler, and how it was trained."""
    _publish(path, weights, {"family": "upsampler"} | {name: str(value) for name, value in record.items()})


def _publish(path: Path, weights: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write float32 tensors; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.partial")
    save_file({name: value.float().contiguous() for name, value in weights.items()}, unfinished, metadata)
    unfinished.rename(path)
