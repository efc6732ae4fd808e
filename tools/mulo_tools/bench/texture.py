"""The texture of an image in 64 numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn

from mulo_tools.reference.render import Pixels

__all__ = ["TEXTURE_FEATURES", "texture_features"]

_BLOCK = 8
TEXTURE_FEATURES = _BLOCK**2
"""One for every frequency of a block."""

_FLOOR = 1e-6
"""Energy below which a frequency counts as absent: a hundredth of a grey level."""
_LUMA = np.array([0.299, 0.587, 0.114]) / 255
"""Rec. 601, scaled to 0..1."""


def texture_features(image: Pixels) -> NDArray[np.float64]:
    """Log mean energy of every frequency of the 8 x 8 DCT of the luma; [64]: blur, blocking and lost noise show in it.

    Args:
        image: [height, width, 3], both divisible by 8.
    """
    luma = image @ _LUMA
    rows, cols = (side // _BLOCK for side in luma.shape)
    blocks = luma.reshape(rows, _BLOCK, cols, _BLOCK).swapaxes(1, 2)
    energy = np.square(dctn(blocks, axes=(-2, -1), norm="ortho")).mean((0, 1))
    return np.asarray(np.log(energy.ravel() + _FLOOR), np.float64)
