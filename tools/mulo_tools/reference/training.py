"""What every training run of the reference family shares: budget, replicas, averaged weights, checkpoints.

A run is a pure function of its seed and step number: data order and noise of step s come from a generator seeded with
(seed, rank, s), so a resumed run continues bit for bit without saving generators.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of steps, of minutes or of both; progress runs from 0 to 1 along whichever is nearer its end."""

    steps: int | None = None
    minutes: float | None = None

    def progress(self, step: int, seconds: float) -> float:
        """The share that is used up after so many steps and seconds."""
        by_steps = step / self.steps if self.steps else 0.0
        by_minutes = seconds / (60 * self.minutes) if self.minutes else 0.0
        return max(by_steps, by_minutes)


class Clock:
    """Seconds of training, going on from where a checkpoint stopped."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._start = time.monotonic() - seconds

    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._start


class Replicas:
    """Data-parallel processes (torchrun) that share gradients; a lone process is the trivial case."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        if self.count > 1:
            distributed.init_process_group("gloo")

    def generator(self, seed: int, step: int) -> np.random.Generator:
        """The random generator of this replica's step."""
        return np.random.default_rng((seed, self.rank, step))

    def agree(self, value: float) -> float:
        """The first replica's value, for decisions that all must take alike."""
        if self.count == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        distributed.broadcast(shared, 0)
        return float(shared)

    def average_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the replicas."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        flat /= self.count
        means = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, mean in zip(gradients, means, strict=True):
            gradient.copy_(mean.view_as(gradient))

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors by the first replica's."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)


class AveragedWeights:
    """Exponential moving average of a module's weights; its memory grows to `memory` steps as training goes on."""

    def __init__(self, module: nn.Module, memory: int) -> None:
        self.memory = memory
        self.values = {name: value.clone() for name, value in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Move towards the module's weights after `step` steps."""
        weight = 1 - min(1 - 1 / self.memory, step / (step + 20))
        for name, value in module.state_dict().items():
            self.values[name].lerp_(value, weight)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a resumable state; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.rename(path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote."""
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state
