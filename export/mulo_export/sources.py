"""The checkpoints of a bundle: read, and checked to belong together, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.llamagen import TransformerConfig, read_transformer
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import VqConfig, read_vq

__all__ = ["Sources", "Transformer", "read_source_transformer", "read_sources"]

_RATIOS = (2, 4)


@dataclass(frozen=True, slots=True)
class Transformer:
    """A checkpoint of a drafter or a target."""

    config: TransformerConfig
    file: TensorFile


@dataclass(frozen=True, slots=True)
class Sources:
    """Checkpoints that belong together.

    Attributes:
        drafter: the low-resolution model.
        target: the high-resolution model.
        vq: structure of the tokenizer that both share.
        vq_file: the tokenizer's weights.
        prompt: the word tables of a model that reads a short list of words; None for others.
    """

    drafter: Transformer
    target: Transformer
    vq: VqConfig
    vq_file: TensorFile
    prompt: TensorFile | None

    @property
    def ratio(self) -> int:
        """Target tokens along one side for every drafter token."""
        return self.target.config.grid // self.drafter.config.grid


def read_source_transformer(path: Path, *, grid: int | None, heads: int | None) -> Transformer:
    """Read the header of a transformer's checkpoint.

    Raises:
        CheckpointError: see `read_tensor_file` and `read_transformer`.
    """
    file = read_tensor_file(path)
    return Transformer(read_transformer(file, grid=grid, heads=heads), file)


def read_sources(drafter: Transformer, target: Transformer, vq: Path, prompt: Path | None) -> Sources:
    """Read the remaining headers, and check that the four files belong together.

    Raises:
        CheckpointError: a file is not what it should be, or the files contradict each other; all faults are listed.
    """
    vq_file = read_tensor_file(vq)
    prompt_file = None if prompt is None else read_tensor_file(prompt)
    sources = Sources(drafter, target, read_vq(vq_file), vq_file, prompt_file)
    faults = [*_model_faults(sources), *_prompt_faults(sources)]
    if faults:
        raise CheckpointError(
            f"{drafter.file.path} cannot draft for {target.file.path}",
            found="\n            ".join(faults),
            expected="a drafter, a target and a VQ tokenizer that were trained together",
            fix="give checkpoints of one family",
        )
    return sources


def _model_faults(sources: Sources) -> Iterator[str]:
    drafter, target = sources.drafter.config, sources.target.config
    for name in ("family", "vocabulary", "prefix", "feature_size", "classes"):
        if (low := getattr(drafter, name)) != (high := getattr(target, name)):
            yield f"{name} is {low} in the drafter and {high} in the target"
    if target.vocabulary != sources.vq.vocabulary:
        yield f"vocabulary is {target.vocabulary} in the target and {sources.vq.vocabulary} in the VQ tokenizer"
    if target.grid not in [drafter.grid * ratio for ratio in _RATIOS]:
        yield f"grid is {drafter.grid} in the drafter and {target.grid} in the target, a ratio that is not 2 or 4"


def _prompt_faults(sources: Sources) -> Iterator[str]:
    if sources.prompt is None:
        return
    config, path = sources.target.config, sources.prompt.path
    if config.feature_size is None:
        yield f"{path} encodes words, which a class-conditional model does not read"
        return
    table = sources.prompt.tensors.get("word_features")
    if table is None or len(table.shape) != 2:
        yield f"{path} has no matrix word_features"
    elif table.shape[1] != config.feature_size:
        yield f"{path} has features of width {table.shape[1]}, the models read {config.feature_size}"
    if (length := sources.prompt.metadata.get("length")) != str(config.prefix):
        yield f"{path} pads prompts to {length} words, the models read {config.prefix}"
