"""Golden outputs of LlamaGen's own VQ-16 tokenizer: the weights are rebuilt, images, latents and tokens were stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from golden_models import WEIGHTS, golden_tensors, load_graph, read_golden
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import VqConfig, read_vq
from mulo_export.graphs.vq import vq_decode_graph, vq_encode_graph
from numpy.typing import NDArray
from safetensors.numpy import save_file

__all__ = ["DECODE_TOLERANCE", "GoldenTokenizer", "open_golden_tokenizer", "swapped"]

DECODE_TOLERANCE = 1e-3
"""Largest difference of a decoded value, of which the largest is 2.4."""


@dataclass(frozen=True, slots=True)
class GoldenTokenizer:
    """The tokenizer with golden weights, what it was given, and what it gave.

    Attributes:
        file: its weights, called `WEIGHTS`; its graphs are written beside them.
        config: its structure.
        stored: tokens `codes` [1, 4, 4] and the image `decoded` from them; an `image` [1, 3, 64, 64], and its `latent`
            [1, 8, 4, 4] and `indices` [1, 4, 4].
    """

    file: TensorFile
    config: VqConfig
    stored: Mapping[str, NDArray[Any]]

    def decode_graph(self) -> OnnxRuntimeEngine:
        """Its graph from tokens to an image, loaded."""
        return load_graph(vq_decode_graph(self.config, self.file, WEIGHTS), self.file.path.with_name("decode.onnx"))

    def encode_graph(self) -> OnnxRuntimeEngine:
        """Its graph from an image to tokens, loaded."""
        return load_graph(vq_encode_graph(self.config, self.file, WEIGHTS), self.file.path.with_name("encode.onnx"))

    def decode_error(self, image: NDArray[np.float32]) -> float:
        """Largest difference of `image`, made of the stored tokens, from the stored one."""
        return float(np.abs(image - self.stored["decoded"]).max())


def open_golden_tokenizer(folder: Path) -> GoldenTokenizer:
    """Write the golden weights, 288 MB, into `folder` and open them."""
    stored, meta = read_golden("vq16")
    save_file(golden_tensors(meta), folder / WEIGHTS)
    for name in ("codes", "indices"):
        stored[name] = stored[name].reshape(1, 4, 4)
    file = read_tensor_file(folder / WEIGHTS)
    return GoldenTokenizer(file, read_vq(file), stored)


def swapped(model: GoldenTokenizer, first: str, second: str) -> GoldenTokenizer:
    """The same tokenizer, but that two tensors are taken for each other."""
    tensors = dict(model.file.tensors)
    tensors[first] = replace(model.file.tensors[second], name=first)
    tensors[second] = replace(model.file.tensors[first], name=second)
    return replace(model, file=replace(model.file, tensors=tensors))
