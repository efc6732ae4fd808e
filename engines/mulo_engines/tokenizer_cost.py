"""What a pass of a VQ tokenizer's graphs reads of its weights and computes; its weights have LlamaGen's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import prod

from mulo_engines.stored_tensors import StoredTensor

__all__ = ["tokenizer_cost"]

_CODEBOOK = "quantize.embedding.weight"
_LEVEL = re.compile(r"\.conv_blocks\.(\d+)\.")

Tensors = Mapping[str, StoredTensor]


def tokenizer_cost(tensors: Tensors, graph: str, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes of weights read and FLOP of one pass of "upsampler", "downsampler" or "decoder".

    Attention inside the tokenizer counts by its projections and by its products of N x N positions.

    Args:
        tensors: the tokenizer's weights by name.
        graph: the graph.
        sizes: the symbols of its signature.
    """
    high = sizes["N"] * sizes.get("rh", 0) * sizes.get("rw", 0)
    low = sizes["N"] * sizes.get("h", 0) * sizes.get("w", 0)
    read, decoded, encoded = (high, high, low) if graph == "downsampler" else (low, low, high)
    parts = [_side(tensors, "decoder", "post_quant_conv", decoded, sizes["N"])]
    if graph != "decoder":
        parts += [_side(tensors, "encoder", "quant_conv", encoded, sizes["N"]), _nearest(tensors[_CODEBOOK], encoded)]
    looked_up = read * tensors[_CODEBOOK].shape[1] * 4
    return sum(size for size, _ in parts) + looked_up, sum(flop for _, flop in parts)


def _side(tensors: Tensors, side: str, junction: str, tokens: int, images: int) -> tuple[int, int]:
    """Bytes and FLOP of the encoder or the decoder for `tokens` positions of the latent of all `images`."""
    names = [name for name in tensors if name.startswith((f"{side}.", f"{junction}."))]
    levels = 1 + max(int(found[1]) for name in names if (found := _LEVEL.search(name)))
    size, flop = sum(tensors[name].nbytes for name in names), 0
    for name, scale in _scales(names, levels):
        positions = int(tokens * scale**2)
        shape = tensors[name].shape
        flop += 2 * positions * prod(shape)
        if name.endswith(".q.weight"):
            flop += 4 * positions * (positions // images) * shape[0]
    return size, flop


def _scales(names: list[str], levels: int) -> Iterator[tuple[str, Fraction]]:
    """Every matrix and how many rows its output has for a row of the latent.

    The encoder halves the rows behind each of its blocks but the last, the decoder doubles them.
    """
    widest = 2 ** (levels - 1)
    for name in names:
        if not name.endswith(".weight") or "norm" in name:
            continue
        scale = Fraction(1)
        if found := _LEVEL.search(name):
            passed = int(found[1]) + ("sample." in name)
            scale = Fraction(widest, 2**passed) if name.startswith("encoder.") else Fraction(2**passed)
        elif name in ("encoder.conv_in.weight", "decoder.conv_out.weight"):
            scale = Fraction(widest)
        yield name, scale


def _nearest(codebook: StoredTensor, tokens: int) -> tuple[int, int]:
    """Comparing `tokens` latents with every entry of the codebook, which is read whole."""
    return codebook.nbytes, 2 * tokens * codebook.values
