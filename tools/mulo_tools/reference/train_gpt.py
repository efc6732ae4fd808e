"""Training of the GPTs on token grids and captions.

Matrices inside the layers learn with Muon, everything else with AdamW, both at one learning rate that warms up linearly
and then, after a plateau, falls linearly to zero. A tenth of the captions is replaced by the null condition.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mulo_tools.reference.gpt import GPT, GPTConfig
from mulo_tools.reference.muon import Muon
from mulo_tools.reference.progress import History, Progress
from mulo_tools.reference.training import (
    AveragedWeights,
    Budget,
    Clock,
    Replicas,
    load_checkpoint,
    save_checkpoint,
)


@dataclass(frozen=True, slots=True)
class TokenData:
    """Training examples: text features [n, P, E], text mask [n, P] and image tokens [n, grid * grid]."""

    features: Tensor
    text_mask: Tensor
    tokens: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def side(self) -> int:
        """Rows and columns of the token grids."""
        return math.isqrt(self.tokens.shape[1])


def every(stride: int, data: TokenData) -> TokenData:
    """The tokens of every `stride`-th row and column: what goes where, in a fraction of the tokens."""
    grids = data.tokens.reshape(len(data), data.side, data.side)[:, ::stride, ::stride]
    return TokenData(data.features, data.text_mask, grids.reshape(len(data), -1))


@dataclass(frozen=True, slots=True)
class Portion:
    """What a step takes of one resolution: `batch` images per replica."""

    data: TokenData
    batch: int


@dataclass(frozen=True, slots=True)
class GPTRecipe:
    """How a GPT is trained; the first `head_start` of the run leaves out the pictures at the model's own resolution."""

    head_start: float = 0.0
    seed: int = 0
    learning_rate: float = 3e-3
    warm_up: int = 50
    decay_from: float = 0.35
    null_share: float = 0.1
    memory: int = 200
    checkpoint_every: int = 50


class GPTTraining:
    """One training run: the model, its average and its two optimizers."""

    def __init__(self, config: GPTConfig, recipe: GPTRecipe, replicas: Replicas) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.replicas = replicas
        self.model = GPT(config)
        self.parameters = list(self.model.parameters())
        self.optimizers = make_optimizers(self.model, recipe.learning_rate)
        self.average = AveragedWeights(self.model, recipe.memory)
        self.history: History = []
        self.step = 0

    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Begin with the weights of a model of the same sizes, the grid apart."""
        self.model.load_state_dict(weights)
        self.average = AveragedWeights(self.model, self.recipe.memory)

    def run(self, portions: Sequence[Portion], budget: Budget, checkpoint: Path, name: str) -> None:
        """Train until the budget is used up, from the checkpoint on when there is one."""
        clock = Clock(self.restore(checkpoint) if checkpoint.exists() else 0.0)
        with Progress(name, budget, self.history, shown=self.replicas.rank == 0) as bar:
            while (progress := self.replicas.agree(budget.progress(self.step, clock.seconds()))) < 1:
                loss = self.train_step(portions, progress)
                bar.update(self.step, clock.seconds(), loss)
                if self.step % self.recipe.checkpoint_every == 0:
                    self.save(checkpoint, clock.seconds())
        self.save(checkpoint, clock.seconds())

    def train_step(self, portions: Sequence[Portion], progress: float) -> float:
        """One step; returns the mean negative log-likelihood per token in nats."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate(progress)
        if progress < self.recipe.head_start:
            portions = [portion for portion in portions if portion.data.side < self.model.config.grid]
        total = sum(portion.batch * portion.data.tokens.shape[1] for portion in portions)
        loss = sum(self.accumulate_gradients(portion, total) for portion in portions)
        self.replicas.average_gradients(self.parameters)
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.average.update(self.model, self.step)
        return loss

    def learning_rate(self, progress: float) -> float:
        """Linear warm-up by steps, plateau, linear decay by progress."""
        warm = min(1.0, (self.step + 1) / self.recipe.warm_up)
        return self.recipe.learning_rate * warm * min(1.0, (1 - progress) / (1 - self.recipe.decay_from))

    def accumulate_gradients(self, portion: Portion, total: int) -> float:
        """Gradients and loss of one portion of a step that has `total` tokens.

        Captions of one length go together: without padding attention is causal.
        """
        data = portion.data
        rng = self.replicas.generator(self.recipe.seed + data.side, self.step)
        rows = self.batch_rows(len(data), portion.batch)
        null = torch.from_numpy(rng.random(len(rows)) < self.recipe.null_share)
        lengths = data.text_mask[rows].sum(1)
        share = 0.0
        for length in torch.unique(lengths):
            chosen = lengths == length
            loss = self.loss(data, rows[chosen], null[chosen]) / total
            torch.autograd.backward(loss)
            share += float(loss.detach())
        return share

    def batch_rows(self, count: int, batch: int) -> Tensor:
        """The examples of this replica's step: every epoch is a permutation, dealt out in turn."""
        first = (self.step * self.replicas.count + self.replicas.rank) * batch
        places = range(first, first + batch)
        epochs = {place // count for place in places}
        orders = {epoch: np.random.default_rng((self.recipe.seed, epoch)).permutation(count) for epoch in epochs}
        return torch.tensor([int(orders[place // count][place % count]) for place in places])

    def loss(self, data: TokenData, rows: Tensor, null: Tensor) -> Tensor:
        """Summed negative log-likelihood of the rows' tokens; rows with `null` are unconditional."""
        unconditional = self.model.cls_embedding.uncond_embedding
        features = torch.where(null[:, None, None], unconditional, data.features[rows])
        tokens = torch.from_numpy(data.tokens[rows.numpy()].astype(np.int64))
        logits = self.model(features, data.text_mask[rows], tokens[:, :-1], data.side)
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum")

    def save(self, checkpoint: Path, seconds: float) -> None:
        """Write the resumable state (first replica only)."""
        if self.replicas.rank:
            return
        state = {
            "step": self.step,
            "seconds": seconds,
            "history": self.history,
            "weights": self.model.state_dict(),
            "average": self.average.values,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        save_checkpoint(checkpoint, state)

    def restore(self, checkpoint: Path) -> float:
        """Take over a saved state; returns the seconds already spent."""
        state = load_checkpoint(checkpoint)
        self.model.load_state_dict(state["weights"])
        self.average.values, self.history, self.step = state["average"], state["history"], state["step"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        return float(state["seconds"])


def make_optimizers(model: GPT, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for embeddings, norms and the output projection."""
    named = dict(model.named_parameters())
    matrices = [name for name, value in named.items() if name.startswith("layers.") and value.dim() == 2]
    others = [value for name, value in named.items() if name not in set(matrices)]
    return [
        Muon([named[name] for name in matrices], lr=learning_rate),
        torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]
