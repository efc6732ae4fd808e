"""LlamaGen's published VQ tokenizers with random weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from mulo_export.checkpoints.vq import VqBlock, VqConfig, vq_shapes
from mulo_export.weights import TensorEntry, write_tensors

__all__ = ["VQ8", "VQ16", "write_random_tokenizer"]

_ENCODER_BLOCKS, _DECODER_BLOCKS = 2, 3


def _tokenizer(*widths: int) -> VqConfig:
    """A tokenizer whose resolution levels have `widths` channels, the finest first."""
    return VqConfig(
        vocabulary=16384,
        code_size=8,
        latent_channels=256,
        encoder=tuple(_encoder(widths)),
        decoder=tuple(_decoder(widths)),
    )


def _encoder(widths: Sequence[int]) -> Iterator[VqBlock]:
    channels = widths[0]
    for level, outputs in enumerate(widths):
        stem = f"encoder.conv_blocks.{level}"
        lowest = level == len(widths) - 1
        yield from _level(stem, channels, outputs, _ENCODER_BLOCKS, attention=lowest)
        channels = outputs
        if not lowest:
            yield VqBlock("downsample", f"{stem}.downsample", channels, channels)
    yield from _middle("encoder", channels)


def _decoder(widths: Sequence[int]) -> Iterator[VqBlock]:
    channels = widths[-1]
    yield from _middle("decoder", channels)
    for level, outputs in enumerate(reversed(widths)):
        stem = f"decoder.conv_blocks.{level}"
        yield from _level(stem, channels, outputs, _DECODER_BLOCKS, attention=level == 0)
        channels = outputs
        if level < len(widths) - 1:
            yield VqBlock("upsample", f"{stem}.upsample", channels, channels)


def _level(stem: str, inputs: int, outputs: int, count: int, *, attention: bool) -> Iterator[VqBlock]:
    for index in range(count):
        yield VqBlock("residual", f"{stem}.res.{index}", outputs if index else inputs, outputs)
        if attention:
            yield VqBlock("attention", f"{stem}.attn.{index}", outputs, outputs)


def _middle(side: str, channels: int) -> Iterator[VqBlock]:
    yield VqBlock("residual", f"{side}.mid.0", channels, channels)
    yield VqBlock("attention", f"{side}.mid.1", channels, channels)
    yield VqBlock("residual", f"{side}.mid.2", channels, channels)


VQ16 = _tokenizer(128, 128, 256, 256, 512)
"""Five levels, 16 pixels a token; 71,883,403 parameters."""
VQ8 = _tokenizer(128, 256, 256, 512)
"""Four levels, 8 pixels a token; 70,109,835 parameters."""


def write_random_tokenizer(path: Path, config: VqConfig = VQ16, seed: int = 0) -> None:
    """Write a tokenizer of normal weights, scaled by their fan-in, one tensor in memory at a time.

    Args:
        path: the safetensors file, which must not exist.
        config: the tokenizer.
        seed: of the weights.
    """
    rng = np.random.default_rng(seed)
    shapes = vq_shapes(config)
    entries = {name: TensorEntry("F32", shape, 4 * int(np.prod(shape))) for name, shape in shapes.items()}
    weights = (
        rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:]))) for shape in shapes.values()
    )
    metadata = {"groups": str(config.groups), "norm_eps": str(config.norm_eps)}
    write_tensors(path, entries, weights, metadata, lambda _: None)
