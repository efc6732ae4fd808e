"""Which tokens are resampled, and in which order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mulo_runtime.regions import (
    expand,
    island_order,
    island_runs,
    published_zipar_order,
    raster_order,
    rejected_from_first,
)
from scipy import ndimage

regions = arrays(np.bool_, st.tuples(st.integers(1, 7), st.integers(1, 8)))


def region(*rows: str) -> np.ndarray:
    return np.array([[cell == "#" for cell in row] for row in rows])


@given(regions, st.integers(0, 3))
def test_expansion_is_the_chebyshev_neighbourhood_from_the_first_rejection_on(
    rejected: np.ndarray, radius: int
) -> None:
    square = np.ones((2 * radius + 1,) * 2, np.bool_)
    first = np.flatnonzero(rejected)[0] if rejected.any() else rejected.size
    behind = np.arange(rejected.size).reshape(rejected.shape) >= first
    assert (expand(rejected, radius) == (ndimage.binary_dilation(rejected, square) & behind)).all()


def test_nothing_before_the_first_rejection_is_rewritten() -> None:
    assert (expand(region("....", "..#.", "...."), 1) == region("....", "..##", ".###")).all()


def test_raster_scan_rejection_takes_everything_from_the_first_rejection_on() -> None:
    assert (rejected_from_first(region("....", "..#.", "....")) == region("....", "..##", "####")).all()


@given(regions)
def test_islands_are_the_eight_connected_components(cells: np.ndarray) -> None:
    labels, count = ndimage.label(cells, np.ones((3, 3)))
    islands = island_runs(cells)
    found = {frozenset((run.row, c) for run in island for c in range(run.start, run.stop)) for island in islands}
    wanted = {frozenset(map(tuple, np.argwhere(labels == label).tolist())) for label in range(1, count + 1)}
    assert found == wanted
    assert len(islands) == count


@given(regions, st.integers(0, 4))
def test_an_island_draws_one_token_per_row_and_wave_and_keeps_its_window(cells: np.ndarray, window: int) -> None:
    order = island_order(cells, window)
    assert ((order >= 0) == cells).all()
    reach = window or cells.shape[1]
    for island in island_runs(cells):
        tokens = [(run.row, c) for run in island for c in range(run.start, run.stop)]
        for row, column in tokens:
            waits_for = [
                t for t in tokens if (t[0] == row and t[1] < column) or (t[0] == row - 1 and t[1] < column + reach)
            ]
            expected = 1 + max((order[token] for token in waits_for), default=-1)
            assert order[row, column] == expected


@pytest.mark.parametrize("window", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("rows", "cols"), [(8, 8), (16, 16), (5, 12)])
def test_a_full_region_is_zipar_in_exactly_the_passes_of_its_schedules(rows: int, cols: int, window: int) -> None:
    narrow = min(window, cols)
    pipelined = island_order(np.ones((rows, cols), np.bool_), window)
    published = published_zipar_order(rows, cols, narrow)
    assert pipelined.max() + 1 == cols + (rows - 1) * narrow
    assert published.max() + 1 == 2 * cols + (rows - 2) * narrow
    assert (pipelined == np.arange(rows)[:, None] * narrow + np.arange(cols)).all()


def test_raster_order_draws_one_token_a_wave() -> None:
    assert raster_order(region(".#.", "##.")).tolist() == [[-1, 0, -1], [1, 2, -1]]


def test_islands_apart_run_at_once() -> None:
    order = island_order(region("##...##", "##...##"), 1)
    assert order.tolist() == [[0, 1, -1, -1, -1, 0, 1], [1, 2, -1, -1, -1, 1, 2]]
