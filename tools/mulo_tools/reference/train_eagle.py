"""Training of a target's EAGLE-1 head on the scenes that the target was trained on; the target stays as it is.

The loss is EAGLE's: a smooth L1 distance to the target's hidden states, and the cross-entropy of the logits that both
lead to. Noise on the hidden states stands for what the head will read when it drafts on its own drafts.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mulo_tools.reference.dataset import load_tokens
from mulo_tools.reference.eagle import EagleHead, target_states
from mulo_tools.reference.gpt import GPT
from mulo_tools.reference.muon import Muon
from mulo_tools.reference.progress import History, Progress
from mulo_tools.reference.scenes import TRAINING_SEEDS, scenes_of
from mulo_tools.reference.train_gpt import TokenData
from mulo_tools.reference.training import (
    AveragedWeights,
    Budget,
    Clock,
    load_checkpoint,
    save_checkpoint,
)
from mulo_tools.reference.vocabulary import scene_prompt_encoder
from mulo_tools.reference.weights_file import load_gpt, save_eagle

SCENES = 8_000
"""Training scenes that are encoded."""


@dataclass(frozen=True, slots=True)
class EagleRecipe:
    """How a head is trained; `distance` weighs the distance of hidden states against the cross-entropy of logits."""

    seed: int = 0
    batch: int = 12
    learning_rate: float = 3e-3
    warm_up: int = 50
    decay_from: float = 0.35
    null_share: float = 0.1
    noise: float = 0.1
    distance: float = 1.0
    memory: int = 200
    checkpoint_every: int = 50


@click.command("eagle")
@click.option("--weights", type=click.Path(path_type=Path), required=True, help="Folder of the family.")
@click.option("--px", type=click.Choice(["64", "128"]), default="64", show_default=True, help="Which target's head.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/eagle"), show_default=True)
@click.option("--minutes", type=click.FloatRange(0), default=15.0, show_default=True, help="Training time.")
@click.option(
    "--scenes", type=click.IntRange(EagleRecipe().batch), default=SCENES, show_default=True, help="Scenes to train on."
)
@click.option("--resume/--restart", default=True, help="Go on from the last checkpoint, or begin again.")
@click.option("--workers", default=1, show_default=True, help="Processes that render and encode training data.")
def eagle_command(weights: Path, px: str, out: Path, minutes: float, scenes: int, resume: bool, workers: int) -> None:
    """Train the EAGLE-1 head of a target of the reference family."""
    for name in ("vq.safetensors", f"target-{px}px.safetensors"):
        if not (weights / name).is_file():
            raise click.BadParameter(f"{weights} holds no {name}; make a family with `mulo train reference`")
    torch.set_num_threads(1)
    checkpoint = out / f"eagle-{px}px.checkpoint"
    if not resume:
        checkpoint.unlink(missing_ok=True)
    tokens = load_tokens(out, weights / "vq.safetensors", {int(px): scenes}, workers)[int(px)]
    captions = [scene.caption for scene in scenes_of(TRAINING_SEEDS[: len(tokens)])]
    features, mask = (torch.from_numpy(array) for array in scene_prompt_encoder().encode(captions))
    training = EagleTraining(load_gpt(weights / f"target-{px}px.safetensors"), EagleRecipe())
    training.run(TokenData(features, mask, tokens), Budget(minutes=minutes), checkpoint)
    record = asdict(training.recipe) | {"scenes": scenes, "minutes": minutes, "steps": training.step}
    save_eagle(out / f"eagle-{px}px.safetensors", training.average.values, training.head.config, record)


class EagleTraining:
    """One training run: the frozen target, the head, its average and its two optimizers."""

    def __init__(self, target: GPT, recipe: EagleRecipe) -> None:
        torch.manual_seed(recipe.seed)
        self.target, self.recipe = target, recipe
        self.head = EagleHead(target.config)
        named = dict(self.head.named_parameters())
        matrices = [name for name, value in named.items() if value.dim() == 2]
        self.optimizers: list[torch.optim.Optimizer] = [
            Muon([named[name] for name in matrices], lr=recipe.learning_rate),
            torch.optim.AdamW([value for name, value in named.items() if name not in matrices], recipe.learning_rate),
        ]
        self.average = AveragedWeights(self.head, recipe.memory)
        self.history: History = []
        self.step = 0

    def run(self, data: TokenData, budget: Budget, checkpoint: Path) -> None:
        """Train until the budget is used up, from the checkpoint on when there is one."""
        clock = Clock(self.restore(checkpoint) if checkpoint.exists() else 0.0)
        with Progress(checkpoint.stem, budget, self.history) as bar:
            while (progress := budget.progress(self.step, clock.seconds())) < 1:
                loss = self.train_step(data, progress)
                bar.update(self.step, clock.seconds(), loss)
                if self.step % self.recipe.checkpoint_every == 0:
                    self.save(checkpoint, clock.seconds())
        self.save(checkpoint, clock.seconds())

    def train_step(self, data: TokenData, progress: float) -> float:
        """One step; returns the mean cross-entropy per position in nats."""
        warm = min(1.0, (self.step + 1) / self.recipe.warm_up)
        rate = self.recipe.learning_rate * warm * min(1.0, (1 - progress) / (1 - self.recipe.decay_from))
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate
        rng = np.random.default_rng((self.recipe.seed, self.step))
        rows = torch.from_numpy(rng.choice(len(data), self.recipe.batch, replace=False))
        lengths = data.text_mask[rows].sum(1)
        entropy = sum(self.accumulate_gradients(data, rows[lengths == length], rng) for length in torch.unique(lengths))
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.average.update(self.head, self.step)
        return float(entropy)

    def accumulate_gradients(self, data: TokenData, rows: Tensor, rng: np.random.Generator) -> float:
        """Gradients and cross-entropy of rows whose captions are of one length, as their share of the step's mean."""
        null = torch.from_numpy(rng.random(len(rows)) < self.recipe.null_share)[:, None, None]
        features = torch.where(null, self.target.cls_embedding.uncond_embedding, data.features[rows])
        tokens = torch.from_numpy(data.tokens[rows.numpy()].astype(np.int64))
        sequence, hidden = target_states(self.target, features, data.text_mask[rows], tokens[:, :-1])
        noise = torch.from_numpy(rng.uniform(-1, 1, hidden.shape).astype(np.float32)) * self.recipe.noise
        foretold = self.head(sequence, hidden + noise)[:, sequence.prefix - 1 :]
        wanted = hidden[:, sequence.prefix :]
        entropy = functional.cross_entropy(
            self.target.output(foretold).flatten(0, 1), self.target.output(wanted).softmax(-1).flatten(0, 1)
        )
        distance = functional.smooth_l1_loss(foretold, wanted)
        share = len(rows) / self.recipe.batch
        torch.autograd.backward((entropy + self.recipe.distance * distance) * share)
        return float(entropy.detach()) * share

    def save(self, checkpoint: Path, seconds: float) -> None:
        """Write the resumable state."""
        state = {
            "step": self.step,
            "seconds": seconds,
            "history": self.history,
            "weights": self.head.state_dict(),
            "average": self.average.values,
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        save_checkpoint(checkpoint, state)

    def restore(self, checkpoint: Path) -> float:
        """Take over a saved state; returns the seconds already spent."""
        state = load_checkpoint(checkpoint)
        self.head.load_state_dict(state["weights"])
        self.average.values, self.history, self.step = state["average"], state["history"], state["step"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        return float(state["seconds"])
