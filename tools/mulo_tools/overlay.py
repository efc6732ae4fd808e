"""The accept map drawn over its image: what was accepted, what was rejected, and the islands around it."""

from __future__ import annotations

import numpy as np
from mulo_runtime import Accept
from numpy.typing import NDArray

__all__ = ["COLOURS", "accept_overlay", "enlarge"]

COLOURS = {Accept.REJECTED: (214, 40, 57), Accept.NEIGHBOUR: (247, 159, 31)}
"""Tint of rejected tokens, and of those resampled beside them."""

_TINT = 0.55
_DIMMED = 0.45
_OUTLINE = (255, 255, 255)


def accept_overlay(image: NDArray[np.uint8], accept_map: NDArray[np.uint8], side: int = 512) -> NDArray[np.uint8]:
    """Grey `image` where candidates were accepted, tint what was resampled, and outline its islands.

    Args:
        image: [height, width, 3].
        accept_map: `Accept` values; [rows, cols] of the image's grid.
        side: pixels that the result is at least high; image and map are enlarged by a whole number.

    Returns:
        The enlarged image; [height, width, 3].
    """
    pixels = enlarge(image, side).astype(np.float32)
    cells = _cells(accept_map, len(pixels))
    grey = pixels.mean(2, keepdims=True) * _DIMMED
    pixels = np.where((cells == Accept.ACCEPTED)[..., None], grey, pixels)
    for value, colour in COLOURS.items():
        tinted = pixels * (1 - _TINT) + np.array(colour, np.float32) * _TINT
        pixels = np.where((cells == value)[..., None], tinted, pixels)
    pixels[_outline(np.isin(cells, list(COLOURS)))] = _OUTLINE
    return pixels.round().astype(np.uint8)


def enlarge(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Repeat pixels by the smallest whole number that makes `image` [height, width, 3] `side` pixels high."""
    factor = -(-side // len(image))
    return image.repeat(factor, 0).repeat(factor, 1)


def _cells(accept_map: NDArray[np.uint8], height: int) -> NDArray[np.uint8]:
    factor = height // len(accept_map)
    return accept_map.repeat(factor, 0).repeat(factor, 1)


def _outline(region: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pixels of `region` that touch a pixel outside it; the border of the image is no outside."""
    padded = np.pad(region, 1, mode="edge")
    inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return region & ~inside
