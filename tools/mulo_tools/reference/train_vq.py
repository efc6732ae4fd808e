"""Training of the VQ tokenizer on crops of pictures of all resolutions.

The codebook starts late: the autoencoder first learns without quantisation, then spherical k-means over the latest code
vectors gives the codebook, and codes that fall out of use are restarted on current code vectors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mulo_tools.reference.progress import History, Progress
from mulo_tools.reference.training import (
    AveragedWeights,
    Budget,
    Clock,
    Replicas,
    load_checkpoint,
    save_checkpoint,
)
from mulo_tools.reference.vq import VQTokenizer, to_tensor


@dataclass(frozen=True, slots=True)
class VQRecipe:
    """How the tokenizer is trained; crops are `crop` px square and come from the resolutions by `shares`."""

    seed: int = 0
    batch: int = 16
    crop: int = 32
    shares: Mapping[int, float] = field(default_factory=lambda: {32: 0.45, 64: 0.35, 128: 0.2})
    learning_rate: float = 1.5e-3
    warm_up: int = 100
    continuous_steps: int = 250
    pool_steps: int = 60
    commitment: float = 0.25
    restart_every: int = 100
    restart_until: float = 0.7
    restart_below: float = 0.03
    memory: int = 400
    checkpoint_every: int = 500


class VQTraining:
    """One training run: the tokenizer, its average, optimizer and the usage of the codes."""

    def __init__(self, recipe: VQRecipe, replicas: Replicas) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.replicas = replicas
        self.tokenizer = VQTokenizer()
        self.parameters = list(self.tokenizer.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=1e-4
        )
        self.average = AveragedWeights(self.tokenizer, recipe.memory)
        self.usage = torch.ones(self.tokenizer.config.codebook_size)
        self.pool: list[Tensor] = []
        self.history: History = []
        self.step = 0

    def run(self, pictures: Mapping[int, NDArray[np.uint8]], budget: Budget, checkpoint: Path) -> None:
        """Train until the budget is used up, from the checkpoint on when there is one."""
        clock = Clock(self.restore(checkpoint) if checkpoint.exists() else 0.0)
        with Progress("vq", budget, self.history, shown=self.replicas.rank == 0) as bar:
            while (progress := self.replicas.agree(budget.progress(self.step, clock.seconds()))) < 1:
                bar.update(self.step, clock.seconds(), self.train_step(pictures, progress))
                if self.step % self.recipe.checkpoint_every == 0:
                    self.save(checkpoint, clock.seconds())
        self.save(checkpoint, clock.seconds())

    def train_step(self, pictures: Mapping[int, NDArray[np.uint8]], progress: float) -> float:
        """One step on a random batch; returns the loss."""
        rng = self.replicas.generator(self.recipe.seed, self.step)
        images = sample_crops(pictures, self.recipe, rng)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(progress)
        directions = self.tokenizer.directions(images)
        if self.step == self.recipe.continuous_steps:
            self.start_codebook(rng)
        if self.step < self.recipe.continuous_steps:
            self.remember(directions)
            loss = reconstruction_loss(self.tokenizer.paint(directions), images)
        else:
            self.restart_dead_codes(directions, progress, rng)
            loss = self.quantised_loss(directions, images)
        self.descend(loss)
        return float(loss.detach())

    def learning_rate(self, progress: float) -> float:
        """Linear warm-up, then half a cosine to zero."""
        warm = min(1.0, (self.step + 1) / self.recipe.warm_up)
        return self.recipe.learning_rate * warm * (0.5 + 0.5 * math.cos(math.pi * min(1.0, progress)))

    def quantised_loss(self, directions: Tensor, images: Tensor) -> Tensor:
        """Reconstruction with straight-through gradients, plus codebook and commitment terms."""
        codes = self.tokenizer.nearest(directions.detach())
        quantised = self.tokenizer.quantize.directions()[codes]
        self.count_usage(codes)
        codebook = (quantised - directions.detach()).square().mean()
        commitment = (quantised.detach() - directions).square().mean()
        painted = self.tokenizer.paint(directions + (quantised - directions).detach())
        loss: Tensor = reconstruction_loss(painted, images) + codebook + self.recipe.commitment * commitment
        return loss

    def count_usage(self, codes: Tensor) -> None:
        """Follow how often each code occurs per step."""
        counts = torch.bincount(codes.flatten(), minlength=len(self.usage)).float()
        self.usage.mul_(0.98).add_(counts, alpha=0.02)

    def remember(self, directions: Tensor) -> None:
        """Keep the code vectors of the last continuous steps for k-means."""
        if self.step >= self.recipe.continuous_steps - self.recipe.pool_steps:
            self.pool.append(directions.detach().flatten(0, 2))

    @torch.no_grad()
    def start_codebook(self, rng: np.random.Generator) -> None:
        """Set the codebook to the centres of spherical k-means over the remembered code vectors."""
        centres = spherical_k_means(torch.cat(self.pool), self.tokenizer.config.codebook_size, rng)
        self.tokenizer.quantize.embedding.weight.copy_(centres)
        self.replicas.share([self.tokenizer.quantize.embedding.weight.data])
        self.pool.clear()

    @torch.no_grad()
    def restart_dead_codes(self, directions: Tensor, progress: float, rng: np.random.Generator) -> None:
        """Move codes that are hardly used onto code vectors of the current batch."""
        if self.step % self.recipe.restart_every or progress > self.recipe.restart_until:
            return
        dead = (self.usage < self.recipe.restart_below).nonzero().flatten()
        vectors = directions.detach().flatten(0, 2)
        chosen = torch.from_numpy(rng.integers(len(vectors), size=len(dead)))
        self.tokenizer.quantize.embedding.weight[dead] = vectors[chosen]
        self.usage[dead] = 10 * self.recipe.restart_below
        self.replicas.share([self.tokenizer.quantize.embedding.weight.data, self.usage])

    def descend(self, loss: Tensor) -> None:
        """One optimizer step, and the average follows (it starts with the codebook)."""
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.replicas.average_gradients(self.parameters)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.step += 1
        self.average.update(self.tokenizer, max(0, self.step - self.recipe.continuous_steps - 1))

    def save(self, checkpoint: Path, seconds: float) -> None:
        """Write the resumable state (first replica only)."""
        if self.replicas.rank:
            return
        state = {
            "step": self.step,
            "seconds": seconds,
            "history": self.history,
            "weights": self.tokenizer.state_dict(),
            "average": self.average.values,
            "optimizer": self.optimizer.state_dict(),
            "usage": self.usage,
            "pool": self.pool,
        }
        save_checkpoint(checkpoint, state)

    def restore(self, checkpoint: Path) -> float:
        """Take over a saved state; returns the seconds already spent."""
        state = load_checkpoint(checkpoint)
        self.tokenizer.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.values = state["average"]
        self.usage, self.pool = state["usage"], state["pool"]
        self.history, self.step = state["history"], state["step"]
        return float(state["seconds"])


def sample_crops(pictures: Mapping[int, NDArray[np.uint8]], recipe: VQRecipe, rng: np.random.Generator) -> Tensor:
    """A batch [batch, 3, crop, crop] in -1..1 of random crops, half of them mirrored."""
    sides = rng.choice(list(recipe.shares), recipe.batch, p=list(recipe.shares.values()))
    crops = []
    for px in sides:
        picture = pictures[px][rng.integers(len(pictures[px]))]
        top, left = rng.integers(px - recipe.crop + 1, size=2)
        crop = picture[top : top + recipe.crop, left : left + recipe.crop]
        crops.append(crop[:, ::-1] if rng.random() < 0.5 else crop)
    return to_tensor(np.stack(crops))


def reconstruction_loss(painted: Tensor, images: Tensor) -> Tensor:
    """Absolute and squared error of the pixels plus the absolute error of their gradients."""
    error = painted - images
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    return error.abs().mean() + 2 * error.square().mean() + 0.5 * edges


def spherical_k_means(vectors: Tensor, count: int, rng: np.random.Generator, rounds: int = 12) -> Tensor:
    """`count` unit centres of unit vectors [n, width]; an empty cluster starts again on a random vector."""
    centres = vectors[torch.from_numpy(rng.permutation(len(vectors))[:count])]
    for _ in range(rounds):
        nearest = (vectors @ centres.T).argmax(-1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, vectors)
        filled = torch.bincount(nearest, minlength=count)[:, None] > 0
        spare = vectors[torch.from_numpy(rng.integers(len(vectors), size=count))]
        centres = torch.where(filled, functional.normalize(sums, dim=-1), spare)
    return centres
