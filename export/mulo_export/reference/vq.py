"""The VQ tokenizer in plain numpy, written from its equations and not from the graphs that it checks.

Structure and arithmetic are LlamaGen's (Sun et al., arXiv 2406.06525, section 3.1, after VQGAN, arXiv 2012.09841):
residual blocks of group norm (arXiv 1803.08494, equation 1), swish and 3 x 3 convolutions, one-headed attention over
the grid, code vectors on the unit sphere. Everything is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import VqBlock, VqConfig

__all__ = ["Encoded", "ReferenceVq", "bicubic"]

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]


class Encoded(NamedTuple):
    """What the encoder makes of images.

    Attributes:
        latent: [N, code_size, h, w], to be compared with the codebook.
        token_ids: [N, h, w], the first of the nearest codes.
    """

    latent: Floats
    token_ids: Tokens


@dataclass(frozen=True, slots=True)
class ReferenceVq:
    """The tokenizer in `file`; it reads a weight where it uses it."""

    config: VqConfig
    file: TensorFile

    def decode(self, token_ids: Tokens) -> Floats:
        """Tokens [N, h, w] -> image [N, 3, H, W], nominally in -1..1, not clamped."""
        vectors = self._codebook()[token_ids].transpose(0, 3, 1, 2)
        return self._side("decoder", self._convolve("post_quant_conv", vectors), self.config.decoder)

    def encode(self, image: Floats) -> Encoded:
        """Image [N, 3, H, W] in -1..1 -> its latent and its tokens."""
        latent = self._convolve("quant_conv", self._side("encoder", image, self.config.encoder))
        directions = _normalised(latent.transpose(0, 2, 3, 1))
        codebook = self._codebook()
        token_ids = np.stack([np.argmax(rows @ codebook.T, axis=-1) for rows in directions])
        return Encoded(latent, token_ids)

    def upsample(self, token_ids: Tokens, ratio: int, steepness: float = 1.0) -> Tokens:
        """Tokens [N, h, w] -> candidates [N, h * ratio, w * ratio]."""
        enlarged = bicubic(np.clip(self.decode(token_ids), -1, 1), ratio)
        return self.encode(steepened(enlarged, ratio - 1, steepness)).token_ids

    def downsample(self, candidate_ids: Tokens, ratio: int) -> Tokens:
        """Candidates [N, h * ratio, w * ratio] -> tokens [N, h, w]."""
        image = np.clip(self.decode(candidate_ids), -1, 1)
        batch, channels, height, width = image.shape
        squares = image.reshape(batch, channels, height // ratio, ratio, width // ratio, ratio)
        return self.encode(squares.mean(axis=(3, 5))).token_ids

    def pixels(self, token_ids: Tokens, rounding: str) -> NDArray[np.uint8]:
        """Tokens [N, h, w] -> pixels [N, H, W, 3], "half_up" or "truncate" being the rounding."""
        levels = (np.clip(self.decode(token_ids), -1, 1) + 1) * np.float32(127.5)
        whole = np.floor(levels + np.float32(0.5 if rounding == "half_up" else 0.0)).clip(0, 255).astype(np.uint8)
        return np.moveaxis(whole, 1, -1)

    def _side(self, side: str, x: Floats, blocks: Sequence[VqBlock]) -> Floats:
        x = self._convolve(f"{side}.conv_in", x, padding=(1, 1))
        for block in blocks:
            x = self._block(block, x)
        return self._convolve(f"{side}.conv_out", _swish(self._norm(f"{side}.norm_out", x)), padding=(1, 1))

    def _block(self, block: VqBlock, x: Floats) -> Floats:
        if block.kind == "residual":
            return self._residual(block, x)
        if block.kind == "attention":
            return self._attention(block, x)
        if block.kind == "upsample":
            return self._convolve(f"{block.stem}.conv", x.repeat(2, axis=2).repeat(2, axis=3), padding=(1, 1))
        return self._convolve(f"{block.stem}.conv", x, padding=(0, 1), stride=2)

    def _residual(self, block: VqBlock, x: Floats) -> Floats:
        inner = self._convolve(f"{block.stem}.conv1", _swish(self._norm(f"{block.stem}.norm1", x)), padding=(1, 1))
        inner = self._convolve(f"{block.stem}.conv2", _swish(self._norm(f"{block.stem}.norm2", inner)), padding=(1, 1))
        if block.inputs != block.outputs:
            x = self._convolve(f"{block.stem}.nin_shortcut", x)
        return x + inner

    def _attention(self, block: VqBlock, x: Floats) -> Floats:
        normal = self._norm(f"{block.stem}.norm", x)
        shape = (*x.shape[:2], -1)
        query, key, value = (self._convolve(f"{block.stem}.{name}", normal).reshape(shape) for name in "qkv")
        scores = query.swapaxes(1, 2) @ key / np.float32(np.sqrt(block.inputs))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = value @ weights.swapaxes(1, 2)
        return x + self._convolve(f"{block.stem}.proj_out", mixed.reshape(x.shape))

    def _norm(self, stem: str, x: Floats) -> Floats:
        groups = x.reshape(len(x), self.config.groups, -1)
        mean, variance = groups.mean(axis=-1, keepdims=True), groups.var(axis=-1, keepdims=True)
        normal = (groups - mean) / np.sqrt(variance + np.float32(self.config.norm_eps))
        scaled: Floats = normal.reshape(x.shape) * self._column(f"{stem}.weight") + self._column(f"{stem}.bias")
        return scaled

    def _convolve(self, stem: str, x: Floats, padding: tuple[int, int] = (0, 0), stride: int = 1) -> Floats:
        """Convolve; `padding` is (before, after) on both axes. A sum over the kernel's places needs little memory."""
        weight = self._weight(f"{stem}.weight")
        padded = np.pad(x, ((0, 0), (0, 0), padding, padding))
        height, width = ((size - weight.shape[-1]) // stride + 1 for size in padded.shape[2:])
        total = np.zeros((len(x), len(weight), height * width), np.float32) + self._column(f"{stem}.bias")[:, :, 0]
        # Places first: a product would gather each place's matrix from all over the weight.
        matrices = np.ascontiguousarray(weight.transpose(2, 3, 0, 1))
        for row, column in np.ndindex(*weight.shape[2:]):
            seen = padded[:, :, row : row + height * stride : stride, column : column + width * stride : stride]
            total += matrices[row, column] @ seen.reshape(len(x), x.shape[1], -1)
        return total.reshape(len(x), len(weight), height, width)

    def _codebook(self) -> Floats:
        return _normalised(self._weight("quantize.embedding.weight"))

    def _column(self, name: str) -> Floats:
        return self._weight(name).reshape(-1, 1, 1)

    def _weight(self, name: str) -> Floats:
        return np.asarray(self.file.array(name), np.float32)


def bicubic(image: Floats, ratio: int) -> Floats:
    """Enlarge [N, C, H, W] by cubic convolution with a = -0.75, half-pixel centres and repeated edges.

    Keys, "Cubic convolution interpolation for digital image processing" (1981); the coefficient is PyTorch's.
    """
    rows, columns = (_interpolation(size, ratio) for size in image.shape[2:])
    enlarged: Floats = (rows @ image @ columns.T).astype(np.float32)
    return enlarged


def steepened(image: Floats, reach: int, steepness: float) -> Floats:
    """Stretch every pixel of [N, C, H, W] about the middle of the range within `reach` of it, and keep it in there."""
    padded = np.pad(image, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="edge")
    around = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach + 1, 2 * reach + 1), axis=(2, 3))
    highest, lowest = around.max((-2, -1)), around.min((-2, -1))
    middle = (highest + lowest) / 2
    steep: Floats = np.clip(middle + np.float32(steepness) * (image - middle), lowest, highest)
    return steep


def _interpolation(size: int, ratio: int) -> NDArray[np.float64]:
    """The matrix [size * ratio, size] of interpolation along one axis."""
    places = (np.arange(size * ratio) + 0.5) / ratio - 0.5
    matrix = np.zeros((size * ratio, size))
    for tap in range(-1, 3):
        source = np.floor(places).astype(int) + tap
        np.add.at(matrix, (np.arange(len(places)), source.clip(0, size - 1)), _cubic(np.abs(places - source)))
    return matrix


def _cubic(distance: NDArray[np.float64], a: float = -0.75) -> NDArray[np.float64]:
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * (distance**3 - 5 * distance**2 + 8 * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _normalised(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    directions: Floats = vectors / np.maximum(lengths, np.float32(1e-12))
    return directions


def _swish(x: Floats) -> Floats:
    swished: Floats = x / (1 + np.exp(-x))
    return swished
