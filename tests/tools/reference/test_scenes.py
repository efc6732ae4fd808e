"""Captions and scenes determine each other."""

from itertools import pairwise

import numpy as np
import pytest
from mulo_engines.errors import PromptError
from mulo_tools.reference.scenes import (
    HELD_OUT_SEEDS,
    KINDS,
    TRAINING_SEEDS,
    TUNING_SEEDS,
    Scene,
    Thing,
    parse_caption,
    sample_scene,
    scenes_of,
)

RED_CIRCLE = Thing("red", "circle")
BLUE_CROSS = Thing("blue", "cross")


@pytest.mark.parametrize(
    ("scene", "caption"),
    [
        (Scene((RED_CIRCLE,), "dark"), "a red circle on dark"),
        (Scene((BLUE_CROSS,) * 3, "grey"), "three blue crosses on grey"),
        (Scene((RED_CIRCLE, BLUE_CROSS), "light"), "a red circle and a blue cross on light"),
        (Scene((RED_CIRCLE, BLUE_CROSS), "dark", "left of"), "a red circle left of a blue cross on dark"),
        (Scene((BLUE_CROSS, RED_CIRCLE), "dark", "above"), "a blue cross above a red circle on dark"),
    ],
)
def test_each_kind_has_its_sentence(scene: Scene, caption: str) -> None:
    assert scene.caption == caption
    assert parse_caption(caption) == scene


def test_every_sampled_scene_survives_the_round_trip_through_its_caption() -> None:
    scenes = scenes_of(range(500))
    assert [parse_caption(scene.caption) for scene in scenes] == scenes
    assert {scene.kind for scene in scenes} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_can_be_asked_for(kind: str) -> None:
    assert all(sample_scene(np.random.default_rng(seed), kind).kind == kind for seed in range(20))


@pytest.mark.parametrize(
    "caption",
    [
        "",
        "on dark",
        "a red circle",
        "a pink circle on dark",
        "a red blob on dark",
        "a red circle on mars",
        "five red circles on dark",
        "two red circle on dark",
        "a red circle beside a blue cross on dark",
        "a red circle left a blue cross on dark",
        "a red circle and a red cross on dark",
        "A red circle on dark",
        "a  red circle on dark",
    ],
)
def test_a_sentence_of_another_language_is_refused_with_the_grammar(caption: str) -> None:
    with pytest.raises(PromptError, match=r"COLOUR is one of red.*SHAPE is one of circle"):
        parse_caption(caption)


def test_training_tuning_and_held_out_seeds_are_disjoint() -> None:
    ranges = sorted((TRAINING_SEEDS, TUNING_SEEDS, HELD_OUT_SEEDS), key=lambda seeds: seeds.start)
    assert all(before.stop <= after.start for before, after in pairwise(ranges))
