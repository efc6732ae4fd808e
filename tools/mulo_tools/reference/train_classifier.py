"""`mulo train classifier`: the network whose features FID and KID of the scenes are taken of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from mulo_tools.output import replacing
from mulo_tools.reference.classifier import WEIGHTS, SceneClassifier, scene_labels, to_input
from mulo_tools.reference.dataset import RESOLUTIONS, render_pictures
from mulo_tools.reference.render import Pixels, downscale
from mulo_tools.reference.scenes import TRAINING_SEEDS, scenes_of

__all__ = ["classifier_command", "train_classifier"]

_BATCH = 64
_LEARNING_RATE = 3e-3
_HELD_OUT = 256


@click.command("classifier")
@click.option("--out", default=WEIGHTS, show_default="the shipped file", type=click.Path(path_type=Path))
@click.option("--scenes", default=1280, show_default=True, type=click.IntRange(_BATCH), help="Scenes to learn from.")
@click.option("--epochs", default=7, show_default=True, type=click.IntRange(1), help="How often each is seen.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of weights and order.")
def classifier_command(out: Path, scenes: int, epochs: int, seed: int) -> None:
    """Train the classifier of scenes: two minutes on one core."""
    model = train_classifier(scenes, epochs, seed)
    share = _correct_share(model, range(TRAINING_SEEDS.stop - _HELD_OUT, TRAINING_SEEDS.stop))
    with replacing(out) as partial:
        save_file(model.state_dict(), partial)
    click.echo(f"{share:.1%} of the labels of unseen scenes are right")


def train_classifier(scenes: int, epochs: int, seed: int) -> SceneClassifier:
    """Learn the labels of the first training scenes at every resolution of the family."""
    torch.manual_seed(seed)
    model = SceneClassifier()
    optimizer = torch.optim.AdamW(model.parameters(), _LEARNING_RATE)
    steps = epochs * -(-scenes // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=steps)
    for pictures, labels in _batches(scenes, epochs, np.random.default_rng(seed)):
        optimizer.zero_grad()
        torch.autograd.backward(binary_cross_entropy_with_logits(model(pictures), labels))
        optimizer.step()
        schedule.step()
    return model.eval()


def _batches(scenes: int, epochs: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Pictures and labels, each batch at one resolution."""
    seeds = TRAINING_SEEDS[:scenes]
    full, labels = render_pictures(seeds, max(RESOLUTIONS)), torch.from_numpy(scene_labels(scenes_of(seeds)))
    for _ in range(epochs):
        order = rng.permutation(scenes)
        for start in range(0, scenes, _BATCH):
            chosen = order[start : start + _BATCH]
            px = int(rng.choice(RESOLUTIONS))
            yield to_input(_downscaled(full[chosen], px)), labels[chosen]


@torch.no_grad()
def _correct_share(model: SceneClassifier, seeds: range) -> float:
    """The share of right labels at the middle resolution."""
    pictures = render_pictures(seeds, RESOLUTIONS[1])
    found = model(to_input(pictures)).numpy() > 0
    return float((found == (scene_labels(scenes_of(seeds)) > 0)).mean())


def _downscaled(pictures: Pixels, px: int) -> Pixels:
    return np.stack([downscale(picture, px) for picture in pictures])
