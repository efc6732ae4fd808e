"""An order of generation as waves: what each pass feeds, what it draws, and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Wave", "plan_waves"]

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Wave:
    """One pass: draw `targets`, each from a query at the position before it.

    Attributes:
        targets: image positions to draw, ascending; shape [R].
        fed: image positions whose query is fed, the predecessors of `targets` and then the refreshed ones; shape [T].
        sources: image positions whose tokens are fed there; differs from `fed` where a surrogate stands in.
        provisional: those of `fed` that hold a surrogate and are hidden after the pass.
    """

    targets: Positions
    fed: Positions
    sources: Positions
    provisional: Positions

    @property
    def lone(self) -> bool:
        """Whether one token is drawn and nothing else is to be done."""
        return len(self.targets) == len(self.fed) == 1 and not len(self.provisional)


def plan_waves(
    order: NDArray[np.int64],
    first_row: int = 0,
    *,
    surrogate: Literal["draft", "latest"] = "latest",
    refresh: bool = True,
    widest: int | None = None,
) -> list[Wave]:
    """Turn an order over rows `first_row`, ... of the image into waves.

    Args:
        order: wave in which each token is drawn, -1 for none; shape [rows, columns].
        first_row: image row of `order`'s first row.
        surrogate: what stands in for a predecessor that is itself still to be drawn: its "draft" token, or the
            "latest" token drawn in the row above, hidden again after the pass (ZipAR).
        refresh: whether the last token of a run, which no successor feeds, is fed with the wave after it is drawn.
        widest: the most queries of a wave; wider ones are split. The first, which may need no pass, is left whole.
    """
    columns = order.shape[1]
    offset = first_row * columns
    flat = order.ravel()
    targets = np.flatnonzero(flat >= 0)
    targets = targets[np.argsort(flat[targets], kind="stable")]
    waves = int(flat.max(initial=-1)) + 1
    fed = targets - 1
    sources = _sources(flat, targets, columns) if surrogate == "latest" else fed
    refreshed = _refreshed(flat, targets, waves) if refresh else _NONE
    # Within a wave, what is drawn comes before what is only refreshed.
    wave_of = np.concatenate([flat[targets], flat[refreshed] + 1])
    by_wave = np.argsort(wave_of, kind="stable")
    fed = np.concatenate([fed, refreshed])[by_wave]
    sources = np.concatenate([sources, refreshed])[by_wave]
    drawn = np.searchsorted(flat[targets], np.arange(waves + 1))
    queried = np.searchsorted(wave_of[by_wave], np.arange(waves + 1))
    planned = [
        _wave(targets[t0:t1] + offset, fed[q0:q1] + offset, sources[q0:q1] + offset)
        for (t0, t1), (q0, q1) in zip(pairwise(drawn), pairwise(queried), strict=True)
    ]
    if widest is None:
        return planned
    return planned[:1] + [part for wave in planned[1:] for part in _split(wave, widest)]


_NONE: Positions = np.empty(0, np.int64)


def _wave(targets: Positions, fed: Positions, sources: Positions) -> Wave:
    borrowed = sources != fed
    return Wave(targets, fed, sources, fed[borrowed] if borrowed.any() else _NONE)


def _sources(flat: Positions, targets: Positions, columns: int) -> Positions:
    """Per target the predecessor, or where that is still to be drawn, the latest token of its row (ZipAR)."""
    predecessors = targets - 1
    sources = predecessors.copy()
    pending = (predecessors >= 0) & (flat[predecessors] >= flat[targets])
    for index in np.flatnonzero(pending):
        sources[index] = _latest_in_row(flat, int(predecessors[index]), int(flat[targets[index]]), columns)
    return sources


def _latest_in_row(flat: Positions, position: int, wave: int, columns: int) -> int:
    """The last position of `position`'s row that was drawn before `wave`, or `position` itself where none was."""
    start = position - position % columns
    row = flat[start : start + columns]
    done = np.flatnonzero((row >= 0) & (row < wave))
    return start + int(done[-1]) if len(done) else position


def _refreshed(flat: Positions, targets: Positions, waves: int) -> Positions:
    """The tokens that no later wave feeds as a predecessor, but for those of the last wave."""
    successors = np.append(flat[1:], -1)
    return targets[(successors[targets] <= flat[targets]) & (flat[targets] < waves - 1)]


def _split(wave: Wave, widest: int) -> list[Wave]:
    """`wave` as waves of at most `widest` queries; what is fed without being drawn comes last."""
    drawn = len(wave.targets)
    parts = [slice(start, start + widest) for start in range(0, len(wave.fed), widest)]
    return [
        Wave(
            wave.targets[part],
            wave.fed[part],
            wave.sources[part],
            np.intersect1d(wave.provisional, wave.fed[part]) if part.start < drawn else _NONE,
        )
        for part in parts
    ]
