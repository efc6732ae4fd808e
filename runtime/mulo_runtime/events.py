"""What happens while an image is decoded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Drafted", "Event", "RowsDone"]


@dataclass(frozen=True, slots=True)
class Drafted:
    """The drafter has drawn the first `rows` rows of the low-resolution grid.

    Attributes:
        rows: drafted rows.
        tokens: the low-resolution grid so far; [N, rows, cols], zero where nothing is drafted.
    """

    rows: int
    tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowsDone:
    """The first `rows` rows of the image are final.

    Attributes:
        rows: final rows of the target's grid.
        tokens: the target's grid; [N, rows, cols]: final rows first, candidates or zeros behind them.
        accepted_share: accepted candidates among those verified so far; None where the method verifies nothing.
    """

    rows: int
    tokens: NDArray[np.int64]
    accepted_share: float | None = None


Event = Drafted | RowsDone
"""An event of a decoder."""
