"""Training of a learned upsampler on pairs of grids of the same scenes; the tokenizer stays as it is.

The loss is that of the paper as far as it goes without a perceptual network: the squared error of the image that the
tokenizer paints of the upsampled codes, and the commitment of the vectors to the codes of the finer grid. A
cross-entropy over codes, which the paper found clearly worse, is not taken. Painting costs many times what the network
does, so that the commitment alone leads for the first part.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from mulo_tools.reference.dataset import load_tokens
from mulo_tools.reference.progress import History, Progress
from mulo_tools.reference.training import AveragedWeights, Budget, Clock
from mulo_tools.reference.upsampler import TokenUpsampler, straight_through
from mulo_tools.reference.vq import VQTokenizer
from mulo_tools.reference.weights_file import load_tokenizer, save_upsampler


@dataclass(frozen=True, slots=True)
class UpsamplerRecipe:
    """How an upsampler is trained.

    Attributes:
        seed: of the weights and the batches.
        batch: pairs of grids in a step.
        learning_rate: until half of the budget is used up; it falls to zero from there on.
        commitment: weight of that loss beside the squared error of pixels.
        painted_from: share of the budget from which on pixels are compared, too.
        memory: steps that the averaged weights remember.
    """

    seed: int = 0
    batch: int = 16
    learning_rate: float = 2e-3
    commitment: float = 0.5
    painted_from: float = 0.6
    memory: int = 100


@click.command("upsampler")
@click.option("--weights", type=click.Path(path_type=Path), required=True, help="Folder of the family.")
@click.option("--ratio", type=click.Choice(["2", "4"]), default="2", show_default=True, help="Target grid / drafter's.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/upsampler"), show_default=True)
@click.option("--minutes", type=float, default=5.0, show_default=True, help="Training time.")
@click.option("--scenes", type=int, default=4_000, show_default=True, help="Scenes to train on.")
@click.option("--workers", default=1, show_default=True, help="Processes that render and encode training data.")
def upsampler_command(weights: Path, ratio: str, out: Path, minutes: float, scenes: int, workers: int) -> None:
    """Train an upsampler from the drafter's grid to a target's."""
    if not (weights / "vq.safetensors").is_file():
        raise click.BadParameter(f"{weights} holds no vq.safetensors; make a family with `mulo train reference`")
    torch.set_num_threads(1)
    px = 32 * int(ratio)
    tokens = load_tokens(out, weights / "vq.safetensors", {32: scenes, px: scenes}, workers)
    training = UpsamplerTraining(load_tokenizer(weights / "vq.safetensors"), int(ratio), UpsamplerRecipe())
    training.run(tokens[32], tokens[px], Budget(minutes=minutes))
    record = asdict(training.recipe) | {"scenes": scenes, "minutes": minutes, "steps": training.step}
    save_upsampler(out / f"upsampler-{px}px.safetensors", training.average.values, record)


class UpsamplerTraining:
    """One training run: the frozen tokenizer, the upsampler, its average and its optimizers."""

    def __init__(self, tokenizer: VQTokenizer, ratio: int, recipe: UpsamplerRecipe) -> None:
        torch.manual_seed(recipe.seed)
        self.tokenizer, self.recipe = tokenizer, recipe
        self.codebook = tokenizer.quantize.directions()
        self.model = TokenUpsampler(ratio, self.codebook.shape[1])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), recipe.learning_rate)
        self.average = AveragedWeights(self.model, recipe.memory)
        self.history: History = []
        self.step = 0

    def run(self, low: NDArray[np.uint16], high: NDArray[np.uint16], budget: Budget) -> None:
        """Train until the budget is used up on pairs of grids, [n, tokens] each."""
        clock = Clock()
        with Progress("upsampler", budget, self.history) as bar:
            while (progress := budget.progress(self.step, clock.seconds())) < 1:
                loss = self.train_step(low, high, progress)
                bar.update(self.step, clock.seconds(), loss)

    def train_step(self, low: NDArray[np.uint16], high: NDArray[np.uint16], progress: float) -> float:
        """One step; returns the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * min(1.0, 2 * (1 - progress))
        self.optimizer.zero_grad(set_to_none=True)
        rng = np.random.default_rng((self.recipe.seed, self.step))
        rows = rng.choice(len(low), self.recipe.batch, replace=False)
        coarse, fine = (self.codebook[_grid(tokens[rows])] for tokens in (low, high))
        finer = self.model(coarse)
        loss = self.recipe.commitment * (1 - (finer * fine).sum(-1).mean())
        if progress >= self.recipe.painted_from:
            loss = loss + self._difference(finer, fine)
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.step += 1
        self.average.update(self.model, self.step)
        return float(loss.detach())

    def _difference(self, finer: torch.Tensor, fine: torch.Tensor) -> torch.Tensor:
        """Squared error of the image of `finer`, quantized, beside that of `fine`."""
        quantized = self.codebook[self.tokenizer.nearest(finer)]
        painted, wanted = self.tokenizer.paint(straight_through(finer, quantized)), self.tokenizer.paint(fine)
        return functional.mse_loss(painted, wanted)


def _grid(tokens: NDArray[np.uint16]) -> torch.Tensor:
    """Codes [n, side, side] of grids [n, side * side]."""
    side = int(tokens.shape[1] ** 0.5)
    return torch.from_numpy(tokens.astype(np.int64)).view(-1, side, side)
