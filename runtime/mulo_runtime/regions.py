"""Which tokens of a round are resampled, and when: expansion of rejections, islands, and the order inside them.

A region is a boolean [rows, columns] array over the tokens of a round; an order is an integer array of that shape that
says in which wave a token is drawn, -1 for tokens that are not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Order",
    "Region",
    "expand",
    "island_order",
    "island_runs",
    "published_zipar_order",
    "raster_order",
    "rejected_from_first",
]

Region = NDArray[np.bool_]
Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring tokens of one row: columns start .. stop-1."""

    row: int
    start: int
    stop: int


def expand(rejected: Region, radius: int) -> Region:
    """Everything within Chebyshev distance `radius` of a rejection, from the first rejection on in raster order.

    MuLo-SD's local expansion N(t, l) = {u : |i_u - i_t| <= l, |j_u - j_t| <= l, u >= t_0}, clipped to the round.
    """
    region = rejected.copy()
    for axis in (0, 1):
        grown = region.copy()
        for distance in range(1, min(radius, region.shape[axis] - 1) + 1):
            _ahead(grown, axis, distance)[...] |= _behind(region, axis, distance)
            _behind(grown, axis, distance)[...] |= _ahead(region, axis, distance)
        region = grown
    return region & rejected_from_first(rejected)


def rejected_from_first(rejected: Region) -> Region:
    """Everything from the first rejection on in raster order: what raster-scan rejection resamples."""
    return np.logical_or.accumulate(rejected.ravel()).reshape(rejected.shape)


def raster_order(region: Region) -> Order:
    """One token per wave in raster order."""
    order = np.cumsum(region.ravel()).reshape(region.shape) - 1
    return np.where(region, order, -1)


def published_zipar_order(rows: int, columns: int, window: int) -> Order:
    """The schedule of ZipAR's published LlamaGen port: the first row alone, then each row `window` behind the last."""
    starts = np.concatenate([[0], columns + np.arange(rows - 1) * window])
    return starts[:, None] + np.arange(columns)


def island_order(region: Region, window: int) -> Order:
    """Every island (8-connected component) at once; inside it one token per open row and wave.

    A token waits for its left neighbour in the island and for the island's tokens in the row above that lie fewer than
    `window` columns to its right (ZipAR's condition); `window` 0 waits for the whole row above. A full region is
    thus decoded in columns + (rows - 1) * min(window, columns) waves.
    """
    columns = region.shape[1]
    reach = min(window, columns) if window else columns
    order = np.full(region.shape, -1, np.int64)
    for island in island_runs(region):
        above = np.full(columns, -1, np.int64)
        for row_runs in _by_row(island):
            above = _order_row(order, row_runs, above, reach)
    return order


def island_runs(region: Region) -> list[list[Run]]:
    """The islands of `region`, each as its runs in raster order."""
    islands: list[list[Run]] = []
    previous: list[tuple[Run, list[Run]]] = []
    for runs in _runs(region):
        current: list[tuple[Run, list[Run]]] = []
        for run in runs:
            touching = _distinct([island for other, island in previous if _touch(run, other)])
            island = _merge(touching, islands, previous, current)
            island.append(run)
            current.append((run, island))
        previous = current
    return [sorted(island, key=lambda run: (run.row, run.start)) for island in islands]


def _order_row(order: Order, runs: list[Run], above: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
    """Order one row of an island; `above` is, per column, the latest wave at or left of it in the row above."""
    columns, wave = len(above), -1
    latest = np.full(columns, -1, np.int64)
    for run in runs:
        for column in range(run.start, run.stop):
            wave = 1 + max(wave, int(above[min(column + reach, columns) - 1]))
            order[run.row, column] = latest[column] = wave
    return np.maximum.accumulate(latest)


def _by_row(island: list[Run]) -> Iterator[list[Run]]:
    row: list[Run] = []
    for run in island:
        if row and run.row != row[0].row:
            yield row
            row = []
        row.append(run)
    yield row


def _runs(region: Region) -> list[list[Run]]:
    """The runs of every row."""
    rows, columns = region.shape
    # A column of nothing on both sides: every run has two edges, and none reaches into the next row.
    bordered = np.zeros((rows, columns + 2), np.bool_)
    bordered[:, 1:-1] = region
    flat = bordered.ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]).tolist()
    runs: list[list[Run]] = [[] for _ in range(rows)]
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        row, column = divmod(start, columns + 2)
        runs[row].append(Run(row, column, column + stop - start))
    return runs


def _touch(run: Run, other: Run) -> bool:
    return run.start <= other.stop and other.start <= run.stop


def _distinct(islands: list[list[Run]]) -> list[list[Run]]:
    return list({id(island): island for island in islands}.values())


def _merge(touching: list[list[Run]], islands: list[list[Run]], *rows: list[tuple[Run, list[Run]]]) -> list[Run]:
    """The one island that a run joins: a new one, or the first that it touches with the others merged into it."""
    if not touching:
        islands.append([])
        return islands[-1]
    first, *others = touching
    for other in others:
        first.extend(other)
        islands[:] = [island for island in islands if island is not other]
        for row in rows:
            row[:] = [(run, first if island is other else island) for run, island in row]
    return first


def _ahead(region: Region, axis: int, distance: int) -> Region:
    return region[distance:] if axis == 0 else region[:, distance:]


def _behind(region: Region, axis: int, distance: int) -> Region:
    return region[:-distance] if axis == 0 else region[:, :-distance]
