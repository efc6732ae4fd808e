"""Features of Inception-v3 as FID takes them, by the user's copy of the published network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from mulo_engines.errors import RequestError
from numpy.typing import NDArray
from PIL import Image

__all__ = ["inception_features"]

_SIDE = 299


@torch.no_grad()
def inception_features(weights: Path, batches: Iterable[list[NDArray[np.uint8]]]) -> NDArray[np.float32]:
    """Features [n, 2048] of pictures, each enlarged or reduced as clean-fid does (arXiv 2104.11222).

    Args:
        weights: inception-2015-12-05.pt, NVIDIA's TorchScript of the network that FID is defined by. A script is a
            program: take it from a source that you trust.
        batches: pictures [height, width, 3] of any size.

    Raises:
        RequestError: the file is no such script.
    """
    try:
        layers = torch.jit.load(weights, map_location="cpu").eval().layers  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError, AttributeError, OSError) as error:
        raise RequestError(
            f"{weights}: the network cannot be read", found=error, expected="inception-2015-12-05.pt, a TorchScript"
        ) from error
    return np.concatenate([layers(_inputs(pictures)).flatten(1).numpy() for pictures in batches])


def _inputs(pictures: list[NDArray[np.uint8]]) -> torch.Tensor:
    """Pictures as the network's layers take them, [n, 3, 299, 299] in -1..1."""
    return (torch.from_numpy(np.stack([_resized(picture) for picture in pictures])) - 128) / 128


def _resized(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """One channel after the other, bicubic with antialiasing and without rounding; [3, 299, 299] in 0..255."""
    channels = (Image.fromarray(picture[..., channel].astype(np.float32)) for channel in range(3))
    resized = [np.asarray(channel.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)) for channel in channels]
    return np.asarray(np.clip(np.stack(resized), 0, 255), np.float32)
