"""What the texture features react to."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_tools.bench.texture import TEXTURE_FEATURES, texture_features
from numpy.typing import NDArray
from PIL import Image, ImageFilter


def noise(side: int = 64) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)


def test_an_even_image_has_energy_at_frequency_zero_only() -> None:
    features = texture_features(np.full((32, 32, 3), 255, np.uint8))
    assert features.shape == (TEXTURE_FEATURES,)
    # The DC coefficient of an orthonormal 8 x 8 DCT is eight times the mean.
    assert features[0] == pytest.approx(np.log(64))
    np.testing.assert_allclose(features[1:], np.log(1e-6), atol=1e-3)


def test_a_wave_has_energy_at_its_own_frequency() -> None:
    columns = np.cos(np.pi * 3 * (np.arange(8) + 0.5) / 8)
    wave = np.tile(127.5 + 127 * columns, (16, 2))[..., None].repeat(3, -1)
    features = texture_features(wave.astype(np.uint8)).reshape(8, 8)
    assert np.argsort(features.ravel())[-2:].tolist() == [3, 0]


def test_blur_takes_energy_from_high_frequencies() -> None:
    sharp = noise()
    blurred = np.asarray(Image.fromarray(sharp).filter(ImageFilter.GaussianBlur(1)))
    loss = (texture_features(sharp) - texture_features(blurred)).reshape(8, 8)
    assert loss[7, 7] > 4
    assert loss[0, 0] == pytest.approx(0, abs=0.1)


def test_texture_does_not_depend_on_where_a_block_is() -> None:
    image = noise()
    rolled = np.roll(image, (8, 24), (0, 1))
    np.testing.assert_allclose(texture_features(rolled), texture_features(image))
