"""What happens while an image is decoded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Drafted", "Event", "RowsDone", "Verified"]


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
class Verified:
    """The target has verified the candidates of the first `rows` rows; what it rejected is resampled next.

    Attributes:
        rows: verified rows of the target's grid.
        tokens: the target's grid; [N, rows, cols]: final rows, then this round's candidates, then zeros.
        accept_map: an `Accept` value per token, with the resampled ones of this round; [N, rows, cols].
        accepted_share: accepted candidates among those verified so far.
    """

    rows: int
    tokens: NDArray[np.int64]
    accept_map: NDArray[np.uint8]
    accepted_share: float | None


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


Event = Drafted | Verified | RowsDone
"""An event of a decoder."""
