"""Waves feed what their draws need, and what they replace."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_runtime.regions import island_order, raster_order
from mulo_runtime.waves import plan_waves


def full(rows: int, cols: int) -> np.ndarray:
    return np.ones((rows, cols), np.bool_)


def test_raster_waves_feed_the_token_just_drawn() -> None:
    waves = plan_waves(raster_order(full(2, 2)))
    assert [wave.targets.tolist() for wave in waves] == [[0], [1], [2], [3]]
    assert [wave.fed.tolist() for wave in waves] == [[-1], [0], [1], [2]]
    assert all((wave.sources == wave.fed).all() and not len(wave.provisional) for wave in waves)


def test_a_row_that_starts_early_borrows_the_latest_token_above_and_hides_it_afterwards() -> None:
    waves = plan_waves(island_order(full(2, 4), 2))
    opening = waves[2]
    assert opening.targets.tolist() == [2, 4]
    assert opening.fed.tolist() == [1, 3]
    assert opening.sources.tolist() == [1, 1]
    assert opening.provisional.tolist() == [3]


def test_the_last_token_of_a_row_is_fed_once_it_is_drawn() -> None:
    waves = plan_waves(island_order(full(2, 4), 2))
    assert waves[3].targets.tolist() == [3, 5]
    assert waves[4].fed.tolist() == [5, 3]
    assert waves[4].targets.tolist() == [6]
    assert 3 not in plan_waves(island_order(full(2, 4), 2), refresh=False)[4].fed


def test_a_draft_token_may_stand_in_for_itself() -> None:
    waves = plan_waves(island_order(full(2, 4), 2), surrogate="draft")
    assert waves[2].sources.tolist() == waves[2].fed.tolist() == [1, 3]
    assert not len(waves[2].provisional)


def test_rows_are_counted_from_the_first_row_of_the_round() -> None:
    waves = plan_waves(raster_order(full(1, 3)), first_row=2)
    assert [wave.fed.tolist() for wave in waves] == [[5], [6], [7]]


@pytest.mark.parametrize("widest", [1, 2, 3])
def test_waves_that_are_too_wide_are_split_without_losing_a_query(widest: int) -> None:
    order = island_order(full(6, 6), 1)
    whole, split = plan_waves(order), plan_waves(order, widest=widest)
    assert max(len(wave.fed) for wave in split) <= widest
    for name in ("targets", "fed", "sources"):
        values = [np.concatenate([getattr(wave, name) for wave in waves]).tolist() for waves in (whole, split)]
        assert sorted(values[0]) == sorted(values[1])
    assert sum(len(w.provisional) for w in split) == sum(len(w.provisional) for w in whole)


def test_nothing_to_draw_is_no_wave() -> None:
    assert plan_waves(np.full((2, 2), -1)) == []
