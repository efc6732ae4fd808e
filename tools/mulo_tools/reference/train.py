"""The command that trains the reference family, stage by stage, from nothing but seeds.

Every stage can be interrupted and started again; run it under torchrun to train with several replicas.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import torch
from safetensors.torch import load_file

from mulo_tools.reference.dataset import load_pictures, load_tokens
from mulo_tools.reference.evaluate import best_sampling, choose_sampling, score_model, score_reconstructions
from mulo_tools.reference.gpt import GPTConfig
from mulo_tools.reference.progress import History
from mulo_tools.reference.scenes import HELD_OUT_SEEDS, TRAINING_SEEDS, TUNING_SEEDS, scenes_of
from mulo_tools.reference.train_gpt import GPTRecipe, GPTTraining, Portion, TokenData, every
from mulo_tools.reference.train_vq import VQRecipe, VQTraining
from mulo_tools.reference.training import Budget, Replicas
from mulo_tools.reference.vocabulary import scene_prompt_encoder
from mulo_tools.reference.weights_file import load_gpt, load_tokenizer, save_gpt, save_tokenizer

VQ_FILE = "vq.safetensors"
PROMPT_FILE = "prompt.safetensors"
RECORD_FILE = "record.json"
VQ_MINUTES = 8.0
VQ_PICTURES = 6_000
SCENES = {32: 90_000, 64: 40_000, 128: 14_000}
"""Training scenes that are encoded at each resolution."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One GPT: where its weights go, its sizes, its budget and the stage that it starts from.

    Images count per replica and step: `batch` whole ones; `coarse`, by their side in px, of smaller pictures whose
    tokens are spread over the grid; `thinned`, by the stride at which rows and columns of tokens are taken. The latter
    two teach what goes where at a fraction of the cost, first (`head_start`) alone.
    """

    file: str
    px: int
    layers: int
    heads: int
    batch: int
    minutes: float
    parent: str | None = None
    coarse: Mapping[int, int] = field(default_factory=dict)
    thinned: Mapping[int, int] = field(default_factory=dict)
    head_start: float = 0.0


STAGES = {
    "drafter": Stage("drafter-32px.safetensors", px=32, layers=6, heads=4, batch=24, minutes=64),
    "target-64": Stage(
        "target-64px.safetensors", px=64, layers=6, heads=2, batch=12, minutes=72, coarse={32: 12}, head_start=0.3
    ),
    "target-128": Stage(
        "target-128px.safetensors",
        px=128,
        layers=6,
        heads=2,
        batch=4,
        minutes=184,
        parent="target-64",
        thinned={2: 8, 4: 8},
        head_start=0.1,
    ),
}


@click.command("reference")
@click.option("--stage", type=click.Choice(["vq", *STAGES, "all", "scores"]), default="all", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/reference"), show_default=True)
@click.option("--minutes", type=float, help="Training time of each stage instead of its own.")
@click.option("--resume/--restart", default=True, help="Go on from the last checkpoint, or begin again.")
@click.option("--workers", default=2, show_default=True, help="Processes that render and encode training data.")
@click.option("--prompts", default=192, show_default=True, help="Held-out prompts to score with; half as many to tune.")
def train_command(stage: str, out: Path, minutes: float | None, resume: bool, workers: int, prompts: int) -> None:
    """Train the reference family: tokenizer, drafter and targets; or score trained weights."""
    torch.set_num_threads(1)
    if stage == "scores":
        score_family(out, prompts)
        return
    replicas = Replicas()
    for name in ("vq", *STAGES) if stage == "all" else (stage,):
        checkpoint = out / f"{name}.checkpoint"
        if not resume:
            checkpoint.unlink(missing_ok=True)
        if name == "vq":
            train_tokenizer(out, checkpoint, Budget(minutes=minutes or VQ_MINUTES), replicas, workers)
        else:
            train_stage(name, out, checkpoint, Budget(minutes=minutes or STAGES[name].minutes), replicas, workers)


def train_tokenizer(out: Path, checkpoint: Path, budget: Budget, replicas: Replicas, workers: int) -> None:
    """Train the tokenizer and publish its averaged weights."""
    recipe = VQRecipe()
    training = VQTraining(recipe, replicas)
    training.run(load_pictures(out, VQ_PICTURES, workers), budget, checkpoint)
    if replicas.rank == 0:
        save_tokenizer(out / VQ_FILE, training.average.values, training.tokenizer.config)
        scene_prompt_encoder().save(out / PROMPT_FILE)
        write_record(out, "vq", asdict(recipe) | {"pictures": VQ_PICTURES}, training.history, replicas)


def train_stage(name: str, out: Path, checkpoint: Path, budget: Budget, replicas: Replicas, workers: int) -> None:
    """Train one GPT and publish its averaged weights."""
    stage = STAGES[name]
    whole = load_examples(out, stage.px, workers)
    portions = [
        Portion(whole, stage.batch),
        *(Portion(load_examples(out, px, workers), batch) for px, batch in stage.coarse.items()),
        *(Portion(every(stride, whole), batch) for stride, batch in stage.thinned.items()),
    ]
    config = GPTConfig(
        grid=stage.px // 4, layers=stage.layers, heads=stage.heads, text_width=scene_prompt_encoder().width
    )
    recipe = GPTRecipe(head_start=stage.head_start)
    training = GPTTraining(config, recipe, replicas)
    if stage.parent:
        training.start_from(load_file(out / STAGES[stage.parent].file))
    training.run(portions, budget, checkpoint, name)
    if replicas.rank == 0:
        save_gpt(out / stage.file, training.average.values, config)
        batches = {"whole": stage.batch, "coarse": dict(stage.coarse), "thinned": dict(stage.thinned)}
        write_record(out, name, asdict(recipe) | {"batches": batches, "scenes": SCENES}, training.history, replicas)


def load_examples(out: Path, px: int, workers: int) -> TokenData:
    """Captions and tokens of the training scenes at one resolution."""
    tokens = load_tokens(out, out / VQ_FILE, SCENES, workers)[px]
    captions = [scene.caption for scene in scenes_of(TRAINING_SEEDS[: len(tokens)])]
    features, mask = scene_prompt_encoder().encode(captions)
    return TokenData(torch.from_numpy(features), torch.from_numpy(mask), tokens)


def score_family(out: Path, prompts: int) -> None:
    """Choose temperature and guidance of every GPT on tuning prompts, score it on held-out ones, record both.

    The ceiling is the score of reconstructed ground-truth pictures of the same scenes.
    """
    tokenizer = load_tokenizer(out / VQ_FILE)
    for name, stage in STAGES.items():
        model = load_gpt(out / stage.file)
        tuning = choose_sampling(model, tokenizer, TUNING_SEEDS[: prompts // 2])
        sampling = best_sampling(tuning)
        held_out = HELD_OUT_SEEDS[:prompts]
        update_record(
            out,
            f"{name} scores",
            {
                "sampling": asdict(sampling),
                "tuning": [asdict(setting) | {"correct": score.correct} for setting, score in tuning.items()],
                "held_out": asdict(score_model(model, tokenizer, held_out, sampling)),
                "ceiling": asdict(score_reconstructions(tokenizer, held_out, stage.px)),
            },
        )


def write_record(out: Path, stage: str, recipe: dict[str, object], history: History, replicas: Replicas) -> None:
    """Add to the record how a stage was trained: recipe, replicas, steps, minutes and the loss along the way."""
    steps, seconds, loss = history[-1]
    entry = {
        "recipe": recipe,
        "replicas": replicas.count,
        "steps": steps,
        "minutes": round(seconds / 60, 1),
        "loss": round(loss, 4),
        "loss_by_step": thinned(history),
    }
    update_record(out, stage, entry)


def update_record(out: Path, key: str, entry: dict[str, object]) -> None:
    """Set one entry of the record beside the weights."""
    path = out / RECORD_FILE
    record = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(record | {key: entry}, indent=1) + "\n")


def thinned(history: History, entries: int = 20) -> dict[int, float]:
    """Loss by step at about `entries` evenly spaced entries of a history, the last one among them."""
    stride = max(1, len(history) // entries)
    return {step: round(loss, 4) for step, _, loss in history[::-1][::stride][::-1]}
