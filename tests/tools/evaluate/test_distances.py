"""Distances are zero between equals, grow with what differs, and come out of networks that the user brings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from mulo_tools.bench.estimates import frechet_distance
from mulo_tools.evaluate.distances import frechet_inception_distance, kernel_inception_distance
from mulo_tools.output import write_png
from numpy.typing import NDArray

RunMulo = Callable[..., Result]


def features(count: int, shift: float = 0.0, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(shift, 1, (count, 6)).astype(np.float32)


def test_fid_is_the_frechet_distance() -> None:
    ours, theirs = features(300, 0.4), features(200, seed=1)
    expected = frechet_distance(ours.astype(np.float64), theirs.astype(np.float64))
    assert frechet_inception_distance(ours, theirs) == pytest.approx(expected, rel=1e-3)
    assert frechet_inception_distance(theirs, theirs) == pytest.approx(0, abs=1e-3)


def test_kid_grows_with_the_difference_and_repeats() -> None:
    near, far = (kernel_inception_distance(features(120, shift), features(100, seed=1)) for shift in (0.1, 1.0))
    assert near[0] < far[0]
    assert far == kernel_inception_distance(features(120, 1.0), features(100, seed=1))


class TinyInception(torch.nn.Module):
    """Shaped like the published script: `layers` of 299 x 299 pictures."""

    def __init__(self) -> None:
        super().__init__()
        convolution = torch.nn.Conv2d(3, 5, 7, 16)
        self.layers = torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(pictures)
        return features


@pytest.fixture
def script(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    torch.jit.save(torch.jit.script(TinyInception()), tmp_path / "inception.pt")
    return tmp_path / "inception.pt"


def folder(path: Path, brightness: int) -> Path:
    rng = np.random.default_rng(brightness)
    for index in range(6):
        write_png(path / f"{index}.png", rng.integers(brightness, brightness + 60, (20, 30, 3), np.uint8))
    return path


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_fid_of_folders_uses_the_network_that_is_given(mulo: RunMulo, script: Path, tmp_path: Path) -> None:
    dark, light = folder(tmp_path / "dark", 0), folder(tmp_path / "light", 150)
    found = {}
    for images in (dark, light):
        result = mulo("evaluate", "fid", "--images", images, "--reference", dark, "--weights", script, "--batch", 4)
        assert result.exit_code == 0, result.output
        found[images] = json.loads(result.stdout)
    assert found[dark]["images"] == found[dark]["reference"] == 6
    assert found[dark]["fid"] == pytest.approx(0, abs=1e-3)
    assert found[light]["fid"] > 0.01
    assert found[light]["kid"] > found[dark]["kid"]


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_what_is_no_network_is_refused(mulo: RunMulo, tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(b"nothing")
    images = folder(tmp_path / "images", 0)
    result = mulo("evaluate", "fid", "--images", images, "--reference", images, "--weights", tmp_path / "weights.pt")
    assert result.exit_code == 2
    assert "the network cannot be read" in result.stderr
