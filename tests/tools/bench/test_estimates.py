"""Intervals, bounds and distances against values known otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mulo_tools.bench.estimates import difference_lower_bound, frechet_distance, wilson_interval
from scipy.linalg import sqrtm
from scipy.stats import binomtest

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200)


def outcomes(*cells: tuple[bool, bool, int]) -> tuple[np.ndarray, np.ndarray]:
    """The two contenders' outcomes, each pair as often as its cell says."""
    pairs = [(ours, theirs) for ours, theirs, count in cells for _ in range(count)]
    ours, theirs = np.array(pairs, np.bool_).T
    return ours, theirs


@pytest.mark.parametrize(("successes", "count"), [(0, 10), (1, 2), (50, 100), (873, 1000), (7, 7)])
def test_the_wilson_interval_is_that_of_scipy(successes: int, count: int) -> None:
    known = binomtest(successes, count).proportion_ci(0.95, "wilson")
    assert wilson_interval(successes, count) == pytest.approx((known.low, known.high), abs=1e-6)


def test_the_bound_of_a_difference_is_the_published_one() -> None:
    ours, theirs = outcomes((True, True, 53), (True, False, 16), (False, True, 8), (False, False, 23))
    # Half a case in each cell: 16.5 won and 8.5 lost of 102; two-sided at 90 % by the formula of Agresti and Min.
    spread = 1.644854 * (25 - 8**2 / 102) ** 0.5 / 102
    assert difference_lower_bound(ours, theirs) == pytest.approx(8 / 102 - spread)


@given(OUTCOMES)
def test_the_bound_lies_below_the_difference_and_above_that_of_a_certain_loss(pairs: list[tuple[bool, bool]]) -> None:
    ours, theirs = np.array(pairs, np.bool_).T
    bound = difference_lower_bound(ours, theirs)
    assert -1 - 1 / len(pairs) < bound < max(ours.mean() - theirs.mean(), 0)


def test_pairing_makes_the_bound_tighter_than_that_of_unpaired_shares() -> None:
    ours, theirs = outcomes((True, True, 500), (False, False, 490), (True, False, 5), (False, True, 5))
    unpaired = -1.645 * (2 * 0.505 * 0.495 / 1000) ** 0.5
    assert unpaired < difference_lower_bound(ours, theirs) < 0


def test_a_bound_of_few_cases_that_agree_is_wide() -> None:
    ours, theirs = outcomes((True, True, 10))
    assert difference_lower_bound(ours, theirs) < -0.1


def test_the_bound_covers_a_true_difference_in_nineteen_of_twenty_experiments() -> None:
    rng = np.random.default_rng(0)
    joint = rng.random((2000, 400))
    ours, theirs = joint < 0.6, (joint > 0.05) & (joint < 0.67)
    bounds = [difference_lower_bound(*pair) for pair in zip(ours, theirs, strict=True)]
    assert np.mean(np.array(bounds) <= 0.6 - 0.62) == pytest.approx(0.95, abs=0.02)


def test_a_cloud_has_no_distance_to_itself() -> None:
    cloud = np.random.default_rng(0).standard_normal((50, 6))
    assert frechet_distance(cloud, cloud) == pytest.approx(0, abs=1e-9)


def test_a_shift_counts_by_its_square() -> None:
    cloud = np.random.default_rng(0).standard_normal((50, 3))
    assert frechet_distance(cloud, cloud + np.array([3, 0, 4])) == pytest.approx(25)


def test_a_stretch_counts_by_the_difference_of_the_deviations() -> None:
    cloud = np.random.default_rng(0).standard_normal((50, 3))
    centred = cloud - cloud.mean(0)
    variance = np.trace(np.cov(centred, rowvar=False))
    assert frechet_distance(centred, 3 * centred) == pytest.approx(4 * variance)


def test_the_distance_is_that_of_the_general_matrix_square_root() -> None:
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal((40, 5)) @ rng.standard_normal((5, 5)) for _ in range(2))
    covariances = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    root = np.trace(sqrtm(covariances[0] @ covariances[1])).real
    expected = np.square(first.mean(0) - second.mean(0)).sum() + np.trace(sum(covariances)) - 2 * root
    assert frechet_distance(first, second) == pytest.approx(expected)
    assert frechet_distance(second, first) == pytest.approx(expected)


def test_a_cloud_on_a_plane_is_no_obstacle() -> None:
    cloud = np.random.default_rng(0).standard_normal((50, 3))
    flat = cloud * [1, 1, 0]
    assert frechet_distance(cloud - cloud.mean(0), flat - flat.mean(0)) == pytest.approx(cloud[:, 2].var(ddof=1))
