"""Prompts that are fair: held out, split, and the same for every method."""

from __future__ import annotations

from itertools import combinations

import pytest
from mulo_runtime import AutoRegressive, MuloSD
from mulo_tools.bench.cases import SPLITS, cases_of
from mulo_tools.reference.scenes import TRAINING_SEEDS


def test_no_split_shares_a_scene_with_another_or_with_training() -> None:
    for one, other in combinations([TRAINING_SEEDS, *SPLITS.values()], 2):
        assert not range(max(one.start, other.start), min(one.stop, other.stop))


def test_every_method_is_asked_for_the_same_image() -> None:
    (case,) = cases_of("tune", 1)
    plain, speculative = case.request(AutoRegressive()), case.request(MuloSD())
    assert (plain.condition, plain.seed) == (speculative.condition, speculative.seed)


def test_more_cases_begin_with_the_fewer() -> None:
    assert cases_of("report", 20)[:5] == cases_of("report", 5)


def test_another_seed_asks_for_other_images_of_the_same_scenes() -> None:
    first, second = cases_of("tune", 50), cases_of("tune", 50, seed=1)
    assert [case.scene for case in first] == [case.scene for case in second]
    assert not {case.seed for case in first} & {case.seed for case in second}


def test_there_is_no_third_split() -> None:
    with pytest.raises(KeyError):
        cases_of("training", 1)
