"""A small classifier of scenes, whose features tell how far a set of pictures is from another one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from mulo_tools.reference.render import Pixels
from mulo_tools.reference.scenes import BACKGROUNDS, COLOURS, COUNTS, SHAPES, Scene, Thing

__all__ = ["FEATURES", "WEIGHTS", "SceneClassifier", "load_classifier", "picture_features", "scene_labels", "to_input"]

WEIGHTS = Path(__file__).parent / "weights" / "classifier.safetensors"
"""The weights that ship."""
FEATURES = 64
"""Features of a picture."""
_WIDTHS = (3, 16, 32, 64, FEATURES)
_GROUPS = 8
_THINGS = [Thing(colour, shape) for colour in COLOURS for shape in SHAPES]
_MOST = max(COUNTS.values())
_BATCH = 64


class SceneClassifier(nn.Module):
    """Four convolutions, a mean over the picture, and one logit per label; takes pictures of any size.

    The first layer keeps the resolution, so that grain and blur reach the features.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index, (inputs, outputs) in enumerate(pairwise(_WIDTHS)):
            stride = 1 if index == 0 else 2
            layers += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(_GROUPS, outputs), nn.SiLU()]
        self.layers = nn.Sequential(*layers)
        self.labels = nn.Linear(FEATURES, len(_THINGS) + len(BACKGROUNDS) + _MOST)

    def features(self, pictures: Tensor) -> Tensor:
        """Features [N, 64] of pictures [N, 3, px, px] in -1..1."""
        mean: Tensor = self.layers(pictures).mean((2, 3))
        return mean

    def forward(self, pictures: Tensor) -> Tensor:
        """Logits [N, labels] of pictures [N, 3, px, px] in -1..1."""
        logits: Tensor = self.labels(self.features(pictures))
        return logits


def scene_labels(scenes: Sequence[Scene]) -> NDArray[np.float32]:
    """What is there: each thing, each background, each number of things; [N, labels] of 0 and 1."""
    return np.array(
        [
            [thing in scene.things for thing in _THINGS]
            + [background == scene.background for background in BACKGROUNDS]
            + [count == len(scene.things) for count in range(1, _MOST + 1)]
            for scene in scenes
        ],
        np.float32,
    )


def load_classifier(path: Path = WEIGHTS) -> SceneClassifier:
    """Read a classifier."""
    model = SceneClassifier()
    model.load_state_dict(load_file(path))
    return model.eval()


@torch.no_grad()
def picture_features(model: SceneClassifier, pictures: Pixels) -> NDArray[np.float32]:
    """Features [N, 64] of pictures [N, px, px, 3]."""
    parts = (pictures[start : start + _BATCH] for start in range(0, len(pictures), _BATCH))
    return np.concatenate([model.features(to_input(part)).numpy() for part in parts])


def to_input(pictures: Pixels) -> Tensor:
    """Pictures [N, px, px, 3] as the classifier takes them."""
    return torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1
