"""The KV cache as a log: which position each slot holds, and which slots a query may attend to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["EMPTY", "SlotTable"]

EMPTY = np.iinfo(np.int32).max
"""Position of a slot that holds nothing a query may see: never written, padding, or stale."""


class SlotTable:
    """What the slots of one model's cache hold, for every image of a lane.

    A slot has no meaning of its own: the key in it carries its position, and the mask is explicit. Every order of
    generation is therefore an append of consecutive slots, and a token that is replaced leaves a stale slot behind.

    Args:
        images: number of images that are decoded together.
        slots: capacity of the cache, in slots.
        positions: length of the longest sequence, in positions.
    """

    __slots__ = ("_position", "_slot")

    def __init__(self, images: int, slots: int, positions: int) -> None:
        self._position = np.full((images, slots), EMPTY, np.int32)
        self._slot = np.full((images, positions), -1, np.int32)

    def clear(self) -> None:
        """Forget everything."""
        self._position.fill(EMPTY)
        self._slot.fill(-1)

    def write(self, image: int, start: int, positions: NDArray[np.integer]) -> None:
        """Record that slots start, start+1, ... now hold `positions`; older slots of these positions become stale."""
        written = self._position[image, start : start + len(positions)]
        self._slot[image, written[written != EMPTY]] = -1
        replaced = self._slot[image, positions]
        self._position[image, replaced[replaced >= 0]] = EMPTY
        self._slot[image, positions] = np.arange(start, start + len(positions), dtype=np.int32)
        written[:] = positions

    def retire(self, image: int, positions: NDArray[np.integer]) -> None:
        """Hide `positions` until they are written again."""
        slots = self._slot[image, positions]
        self._position[image, slots[slots >= 0]] = EMPTY
        self._slot[image, positions] = -1

    def held(self, image: int) -> NDArray[np.int32]:
        """The position of every slot of `image`, EMPTY where there is none; shape [slots]."""
        view: NDArray[np.int32] = self._position[image].view()
        view.flags.writeable = False
        return view

    def mask(self, image: int, positions: NDArray[np.integer], out: NDArray[np.bool_]) -> None:
        """Fill `out` [T, S]: query t may attend to the live slots at or before its position."""
        np.less_equal(self._position[image, : out.shape[1]], positions[:, None], out=out)
