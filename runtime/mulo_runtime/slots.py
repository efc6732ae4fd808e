"""The KV cache as a log: which position each slot holds, and which slots a query may attend to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SlotTable"]

_COMPARED_AT_ONCE = 4096
"""Numpy compares through a buffer of 8 bytes an element, 64 KiB at the most; this keeps it at half of that."""


class SlotTable:
    """What the slots of one model's cache hold, for every image of a lane.

    A slot has no meaning of its own: the key in it carries its position, and the mask is explicit. Every order of
    generation is therefore an append of consecutive slots, and a token that is replaced leaves a stale slot behind.

    Args:
        images: number of images that are decoded together.
        slots: capacity of the cache, in slots.
        positions: length of the longest sequence, in positions.

    Attributes:
        empty: the position of a slot that holds nothing a query may see: never written, padding, or stale.
    """

    __slots__ = ("_position", "_slot", "empty")

    def __init__(self, images: int, slots: int, positions: int) -> None:
        # One slot and one position more than there are: lookups of what is not there land in them, unfiltered.
        self.empty = positions
        self._position = np.full((images, slots + 1), positions, np.int32)
        self._slot = np.full((images, positions + 1), slots, np.int32)

    def clear(self) -> None:
        """Forget everything."""
        self._position.fill(self.empty)
        self._slot.fill(self._position.shape[1] - 1)

    def write(self, image: int, start: int, positions: NDArray[np.integer]) -> None:
        """Record that slots start, start+1, ... now hold `positions`; older slots of these positions become stale."""
        position, slot = self._position[image], self._slot[image]
        stop = start + len(positions)
        slot[position[start:stop]] = len(position) - 1
        position[slot[positions]] = self.empty
        slot[positions] = np.arange(start, stop)
        position[start:stop] = positions

    def write_one(self, image: int, start: int, written: int) -> None:
        """Record that slot `start` now holds the position `written`; scalars cost a fifth of arrays of one."""
        position, slot = self._position[image], self._slot[image]
        slot[position[start]] = len(position) - 1
        position[slot[written]] = self.empty
        slot[written] = start
        position[start] = written

    def retire(self, image: int, positions: NDArray[np.integer]) -> None:
        """Hide `positions` until they are written again."""
        position, slot = self._position[image], self._slot[image]
        position[slot[positions]] = self.empty
        slot[positions] = len(position) - 1

    def held(self, image: int) -> NDArray[np.int32]:
        """The position that every slot of `image` holds, `empty` where there is none; a copy, [slots]."""
        return self._position[image, :-1].copy()

    def mask(self, image: int, positions: NDArray[np.integer], out: NDArray[np.bool_]) -> None:
        """Fill `out` [T, S]: query t may attend to the live slots at or before its position."""
        position = self._position[image, : out.shape[1]]
        rows = max(_COMPARED_AT_ONCE // out.shape[1], 1)
        for start in range(0, len(positions), rows):
            queries = positions[start : start + rows].astype(np.int32)
            np.less_equal(position, queries[:, None], out=out[start : start + rows])

    def mask_one(self, image: int, position: int, out: NDArray[np.bool_]) -> None:
        """Fill `out` [S] for a lone query at `position`."""
        np.less_equal(self._position[image, : len(out)], position, out=out)
