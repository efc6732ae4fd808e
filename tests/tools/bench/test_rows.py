"""Rows made of timed and scored images whose figures are known."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_runtime import AutoRegressive, Method, MuloSD, Statistics, Usage, ZipAR
from mulo_tools.bench.estimates import difference_lower_bound, frechet_distance, wilson_interval
from mulo_tools.bench.rows import MINIMUM_TEXTURES, make_row
from mulo_tools.bench.scoring import Scored
from mulo_tools.bench.timing import Timed

PLAIN, SPECULATIVE = AutoRegressive(), MuloSD()


def timed(
    method: Method, seconds: float, target: int = 16, drafter: int = 0, verified: int = 0, seed: int = 0
) -> Timed:
    engines = {"target": Usage(target, 2 * target, seconds / 2)}
    if drafter:
        engines["drafter"] = Usage(drafter, drafter, seconds / 4)
    statistics = Statistics(
        rounds=1,
        drafted=drafter,
        verified=verified,
        accepted=verified // 2,
        rejected=verified - verified // 2,
        resampled=verified // 4,
        engines=engines,
        phases={},
        slow_runs=0,
        seconds=seconds,
    )
    return Timed(method, seed, seconds, seconds / 2, statistics)


def scored(method: Method, correct: list[bool], seed: int = 0) -> list[Scored]:
    rng = np.random.default_rng(seed)
    return [Scored(method, index, value, tuple(rng.standard_normal(64))) for index, value in enumerate(correct)]


def test_a_speed_up_is_the_median_of_ratios_case_by_case() -> None:
    images = []
    for drift, ratio in ((1, 2), (10, 3), (100, 4)):
        images += [timed(PLAIN, drift, seed=drift), timed(SPECULATIVE, drift / ratio, seed=drift)]
    row = make_row(SPECULATIVE, 2, images, [], {})
    assert row.speedup == pytest.approx(3)
    assert row.seconds_per_image == pytest.approx(10 / 3)


def test_plain_decoding_is_exactly_as_fast_as_itself() -> None:
    assert make_row(PLAIN, 2, [timed(PLAIN, 1.5), timed(PLAIN, 2.5, seed=1)], [], {}).speedup == 1


def test_what_the_engines_did_is_told_per_image() -> None:
    images = [
        timed(PLAIN, 1),
        timed(SPECULATIVE, 1, target=4, drafter=2, verified=16),
        timed(PLAIN, 1),
        timed(SPECULATIVE, 1, target=8, drafter=2, verified=16),
    ]
    row = make_row(SPECULATIVE, 2, images, [], {})
    assert (row.target_passes, row.target_queries, row.drafter_passes, row.drafter_queries) == (6, 12, 2, 2)
    assert (row.accepted_share, row.resampled_share, row.host_share) == (0.5, 0.25, 0.25)


def test_a_method_that_verifies_nothing_has_no_shares_and_no_drafter() -> None:
    row = make_row(PLAIN, 2, [timed(PLAIN, 1)], [], {})
    assert (row.accepted_share, row.resampled_share) == (None, None)
    assert (row.drafter_passes, row.drafter_queries) == (0, 0)


def test_scores_are_compared_case_by_case_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = (rng.random(40) < 0.5 for _ in range(2))
    images = scored(PLAIN, theirs.tolist()) + scored(SPECULATIVE, ours.tolist())[::-1]
    row = make_row(SPECULATIVE, 2, [], images, {})
    assert row.images == 40
    assert row.score == ours.mean()
    assert (row.score_low, row.score_high) == wilson_interval(int(ours.sum()), 40)
    assert row.score_difference_low == difference_lower_bound(ours, theirs)


def test_plain_decoding_differs_from_itself_by_nothing() -> None:
    assert make_row(PLAIN, 2, [], scored(PLAIN, [True, False]), {}).score_difference_low == 0


def test_a_texture_distance_needs_enough_images() -> None:
    textures = np.random.default_rng(9).standard_normal((500, 64))
    enough = scored(ZipAR(), [True] * MINIMUM_TEXTURES, seed=1)
    images = scored(PLAIN, [True] * MINIMUM_TEXTURES) + enough
    expected = frechet_distance(np.array([image.texture for image in enough]), textures)
    assert make_row(ZipAR(), 2, [], images, {"textures": textures}).texture_distance == pytest.approx(expected)
    fewer = images[: MINIMUM_TEXTURES - 1] + enough[:-1]
    assert make_row(ZipAR(), 2, [], fewer, {"textures": textures}).texture_distance is None
    assert make_row(ZipAR(), 2, [], images, {}).texture_distance is None


def test_without_scores_the_timed_images_are_counted() -> None:
    assert make_row(PLAIN, 2, [timed(PLAIN, 1)] * 3, [], {}).images == 3


def test_agreement_is_the_share_of_tokens_that_are_those_of_plain_decoding() -> None:
    tokens = {PLAIN: [1, 2, 3, 4], SPECULATIVE: [1, 2, 9, 4]}
    images = [Scored(method, 0, True, (), np.array(drawn, "<u2").tobytes()) for method, drawn in tokens.items()]
    assert make_row(SPECULATIVE, 2, [], images, {}).agreement == 0.75
    assert make_row(PLAIN, 2, [], images, {}).agreement == 1
    assert make_row(ZipAR(), 2, [], images, {}).agreement is None


def test_fid_and_kid_are_those_of_the_features() -> None:
    reached = np.random.default_rng(9).standard_normal((200, 64))
    features = np.random.default_rng(8).standard_normal((MINIMUM_TEXTURES, 64)) + 0.5
    images = [Scored(PLAIN, seed, True, (), features=tuple(row)) for seed, row in enumerate(features)]
    row = make_row(PLAIN, 2, [], images, {"features": reached})
    assert row.fid == pytest.approx(frechet_distance(features, reached), rel=1e-3)
    assert row.kid is not None
    assert row.kid > 0
