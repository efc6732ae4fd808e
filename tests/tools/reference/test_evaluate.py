"""Scores: the interval, the kinds, and the choice of sampling settings."""

import numpy as np
import pytest
from mulo_tools.bench.estimates import wilson_interval
from mulo_tools.reference.dataset import render_pictures
from mulo_tools.reference.evaluate import Score, best_sampling, score_pictures
from mulo_tools.reference.sample import Sampling
from mulo_tools.reference.scenes import scenes_of


def test_ground_truth_scores_full_marks_in_every_kind() -> None:
    score = score_pictures(render_pictures(range(30), 64), scenes_of(range(30)))
    assert (score.count, score.correct) == (30, 1.0)
    assert set(score.kinds.values()) == {1.0}


def test_pictures_of_other_scenes_score_nothing() -> None:
    pictures = render_pictures(range(30), 64)
    score = score_pictures(np.roll(pictures, 1, axis=0), scenes_of(range(30)))
    assert score.correct <= 0.1


def test_the_interval_is_wilsons() -> None:
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-3)
    assert wilson_interval(0, 10)[0] == pytest.approx(0, abs=1e-9)
    assert wilson_interval(10, 10)[1] == pytest.approx(1, abs=1e-9)


def test_the_best_sampling_is_the_earliest_of_equals() -> None:
    scores = {
        Sampling(temperature): Score(10, correct, (0.0, 1.0), {})
        for temperature, correct in ((0.8, 0.5), (0.9, 0.7), (1.0, 0.7))
    }
    assert best_sampling(scores) == Sampling(0.9)
