"""A learned upsampler in plain numpy: row-causal convolutions over code vectors, and a pixel shuffle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.token_upsampler import UpsamplerConfig

__all__ = ["ReferenceUpsampler"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReferenceUpsampler:
    """The upsampler in `file`, over the normalised `codebook` [V, code_size]."""

    config: UpsamplerConfig
    file: TensorFile
    codebook: Floats

    def upsample(self, token_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens [N, h, w] -> candidates [N, h * ratio, w * ratio]."""
        codes = self.codebook[token_ids].transpose(0, 3, 1, 2)
        x = _silu(self._convolve("conv_in", codes))
        for block in range(self.config.depth):
            x = x + _silu(self._convolve(f"blocks.{block}", x))
        ratio = self.config.ratio
        finer = np.repeat(codes, ratio**2, axis=1) + self._convolve("conv_out", x)
        count, _, height, width = finer.shape
        split = finer.reshape(count, self.config.code_size, ratio, ratio, height, width)
        vectors = split.transpose(0, 4, 2, 5, 3, 1).reshape(count, height * ratio, width * ratio, -1)
        nearest: NDArray[np.int64] = np.argmax(vectors @ self.codebook.T, axis=-1)
        return nearest

    def _convolve(self, name: str, x: Floats) -> Floats:
        weight, bias = (np.asarray(self.file.array(f"{name}.{part}"), np.float32) for part in ("weight", "bias"))
        padded = np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 1)))
        height, width = x.shape[2:]
        seen = np.stack(
            [padded[:, :, row : row + height, column : column + width] for row, column in np.ndindex(3, 3)], axis=2
        )
        convolved: Floats = (
            np.einsum("ncthw,oct->nohw", seen, weight.reshape(*weight.shape[:2], 9)) + bias[:, None, None]
        )
        return convolved


def _silu(x: Floats) -> Floats:
    activated: Floats = x / (1 + np.exp(-x))
    return activated
