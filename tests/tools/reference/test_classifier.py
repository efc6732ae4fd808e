"""The classifier of scenes learns what is shown, ships trained, and its features see blur."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mulo_tools.evaluate.distances import frechet_inception_distance
from mulo_tools.reference.classifier import (
    FEATURES,
    SceneClassifier,
    load_classifier,
    picture_features,
    scene_labels,
    to_input,
)
from mulo_tools.reference.dataset import render_pictures
from mulo_tools.reference.render import Pixels
from mulo_tools.reference.scenes import TUNING_SEEDS, scenes_of
from mulo_tools.reference.train_classifier import train_classifier
from PIL import Image

SEEDS = TUNING_SEEDS[:128]


def blurred(pictures: Pixels, factor: int) -> Pixels:
    """Reduced by `factor` and enlarged again."""
    side = pictures.shape[1]
    images = (Image.fromarray(picture).reduce(factor) for picture in pictures)
    return np.stack([np.asarray(image.resize((side, side), Image.Resampling.BICUBIC)) for image in images])


@pytest.fixture(scope="module")
def shipped() -> SceneClassifier:
    return load_classifier()


@pytest.mark.parametrize("px", [32, 64, 128])
def test_the_shipped_classifier_knows_scenes_that_it_has_not_seen(shipped: SceneClassifier, px: int) -> None:
    seeds = SEEDS[:48]
    labels = scene_labels(scenes_of(seeds)) > 0
    with torch.no_grad():
        found = shipped(to_input(render_pictures(seeds, px))).numpy() > 0
    assert (found == labels).mean() > 0.91


def test_the_distance_grows_with_blur(shipped: SceneClassifier) -> None:
    pictures = render_pictures(SEEDS, 64)
    sharp = picture_features(shipped, pictures)
    assert sharp.shape == (len(SEEDS), FEATURES)
    distances = [
        frechet_inception_distance(picture_features(shipped, blurred(pictures, factor)), sharp)
        for factor in (1, 2, 4, 8)
    ]
    assert distances == sorted(distances)
    assert distances[0] == pytest.approx(0, abs=1e-3)


def test_another_mix_of_scenes_is_further_than_the_same_mix(shipped: SceneClassifier) -> None:
    pictures, scenes = render_pictures(SEEDS, 64), scenes_of(SEEDS)
    features = picture_features(shipped, pictures)
    dark = np.array([scene.background == "dark" for scene in scenes])
    even = np.arange(len(SEEDS)) % 2 == 0
    same, other = (frechet_inception_distance(features[half], features[~half]) for half in (even, dark))
    assert other > 2 * same


def test_training_lowers_the_loss_and_repeats() -> None:
    first, again, longer = (train_classifier(64, epochs, seed=1) for epochs in (1, 1, 8))
    pictures = to_input(render_pictures(SEEDS[:16], 32))
    labels = torch.from_numpy(scene_labels(scenes_of(SEEDS[:16])))
    with torch.no_grad():
        assert torch.equal(first(pictures), again(pictures))
        losses = [
            float(torch.nn.functional.binary_cross_entropy_with_logits(m(pictures), labels)) for m in (first, longer)
        ]
    assert losses[1] < losses[0]
