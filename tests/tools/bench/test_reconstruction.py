"""Textures of reconstructed ground truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mulo_engines.bundle import Bundle
from mulo_tools.bench.reconstruction import reconstruction_features
from mulo_tools.bench.texture import texture_features
from numpy.typing import NDArray


@pytest.fixture(scope="module")
def bundle(scene_bundle: Path) -> Bundle:
    return Bundle.open(scene_bundle)


def textures_of(bundle: Bundle, split: str, count: int, cache: Path | None) -> NDArray[np.float64]:
    return reconstruction_features(bundle, split, count, {"textures": texture_features}, cache)["textures"]


def test_every_scene_has_its_textures(bundle: Bundle) -> None:
    textures = textures_of(bundle, "tune", 10, None)
    assert textures.shape == (10, 64)
    assert np.isfinite(textures).all()
    assert len(np.unique(textures[:, 1])) == 10


def test_fewer_scenes_are_the_first_of_the_more(bundle: Bundle) -> None:
    more = textures_of(bundle, "report", 9, None)
    np.testing.assert_allclose(textures_of(bundle, "report", 3, None), more[:3], rtol=1e-6)


def test_textures_are_computed_once_for_a_tokenizer_a_split_and_a_number(bundle: Bundle, tmp_path: Path) -> None:
    first = textures_of(bundle, "tune", 3, tmp_path)
    (path,) = tmp_path.iterdir()
    np.save(path, first + 1)
    np.testing.assert_array_equal(textures_of(bundle, "tune", 3, tmp_path), first + 1)
    assert not np.array_equal(textures_of(bundle, "report", 3, tmp_path), first)
    assert len(textures_of(bundle, "tune", 2, tmp_path)) == 2
    assert len(list(tmp_path.iterdir())) == 3
