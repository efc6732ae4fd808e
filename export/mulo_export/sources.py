"""The checkpoints of a bundle: read, and checked to belong together, before anything is written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.eagle import eagle_shapes, read_eagle
from mulo_export.checkpoints.read_transformer import read_transformer, transformer_shapes
from mulo_export.checkpoints.ta_tok import TaTokConfig, read_ta_tok, ta_tok_shapes
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.token_upsampler import UpsamplerConfig, read_token_upsampler
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.checkpoints.vq import VqConfig, read_vq, vq_shapes

__all__ = [
    "RATIOS",
    "Sources",
    "TaTok",
    "Tokenizer",
    "Transformer",
    "Upsampler",
    "read_reference_sources",
    "read_source_eagle",
    "read_source_ta_tok",
    "read_source_tokenizer",
    "read_source_transformer",
    "read_source_upsampler",
    "read_sources",
]

REFERENCE_TARGETS = {2: "target-64px.safetensors", 4: "target-128px.safetensors"}
"""Files of the reference family's targets by ratio."""
REFERENCE_HEADS = {2: "eagle-64px.safetensors", 4: "eagle-128px.safetensors"}
"""Files of their EAGLE heads."""

RATIOS = (2, 4)
"""Target tokens along one side for every drafter token, in the pairs that a bundle may hold."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """A checkpoint of a drafter or a target."""

    config: TransformerConfig
    file: TensorFile


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A checkpoint of a VQ tokenizer."""

    config: VqConfig
    file: TensorFile


@dataclass(frozen=True, slots=True)
class TaTok:
    """A checkpoint of a TA-Tok."""

    config: TaTokConfig
    file: TensorFile


@dataclass(frozen=True, slots=True)
class Upsampler:
    """A checkpoint of a learned upsampler."""

    config: UpsamplerConfig
    file: TensorFile


@dataclass(frozen=True, slots=True)
class Sources:
    """Checkpoints that belong together.

    Attributes:
        drafter: the low-resolution model.
        target: the high-resolution model.
        vq: the tokenizer that both share.
        prompt: the word tables of a model that reads a short list of words; None for others.
        ta_tok: what makes features of TA-Tok codes, for Tar; None for others.
        eagle: the target's EAGLE head; None without one.
        upsampler: a learned upsampler; None for the one that goes by way of pixels.
    """

    drafter: Transformer
    target: Transformer
    vq: Tokenizer
    prompt: TensorFile | None = None
    ta_tok: TaTok | None = None
    eagle: Transformer | None = None
    upsampler: Upsampler | None = None

    @property
    def ratio(self) -> int:
        """Target tokens along one side for every drafter token."""
        return self.target.config.grid // self.drafter.config.grid

    @property
    def checkpoints(self) -> dict[str, TensorFile]:
        """The checkpoints by role, the prompt's tables apart."""
        files = {"drafter": self.drafter.file, "target": self.target.file, "vq": self.vq.file}
        further = {"ta_tok": self.ta_tok, "eagle": self.eagle, "upsampler": self.upsampler}
        return files | {role: source.file for role, source in further.items() if source is not None}


def read_source_transformer(path: Path, **told: int | None) -> Transformer:
    """Read the header of a transformer's checkpoint.

    Args:
        path: the file.
        **told: what weights do not tell; see `read_transformer`.

    Raises:
        CheckpointError: see `read_checkpoint` and `read_transformer`.
    """
    file = read_checkpoint(path)
    config = read_transformer(file, **{name: number for name, number in told.items() if number is not None})
    return Transformer(config, file.only(transformer_shapes(config)))


def read_source_tokenizer(path: Path, *, ema: bool = False) -> Tokenizer:
    """Read the header of a VQ tokenizer's checkpoint.

    Args:
        path: the file.
        ema: take the averaged weights of a training file.

    Raises:
        CheckpointError: see `read_checkpoint` and `read_vq`.
    """
    file = read_checkpoint(path, ema=ema)
    config = read_vq(file)
    return Tokenizer(config, file.only(vq_shapes(config)))


def read_source_ta_tok(path: Path) -> TaTok:
    """Read the header of a TA-Tok's checkpoint.

    Raises:
        CheckpointError: see `read_checkpoint` and `read_ta_tok`.
    """
    file = read_checkpoint(path)
    config = read_ta_tok(file)
    return TaTok(config, file.only(ta_tok_shapes(config)))


def read_source_eagle(path: Path | None, target: Transformer) -> Transformer | None:
    """Read the header of the checkpoint of an EAGLE head, where there is one, for `target`.

    Raises:
        CheckpointError: see `read_checkpoint` and `read_eagle`.
    """
    if path is None:
        return None
    file = read_checkpoint(path)
    config = read_eagle(file, target.config)
    return Transformer(config, file.only(eagle_shapes(config)))


def read_source_upsampler(path: Path | None) -> Upsampler | None:
    """Read the header of the checkpoint of a learned upsampler, where there is one.

    Raises:
        CheckpointError: see `read_checkpoint` and `read_token_upsampler`.
    """
    if path is None:
        return None
    file = read_checkpoint(path)
    return Upsampler(read_token_upsampler(file), file)


def read_sources(
    drafter: Transformer,
    target: Transformer,
    vq: Tokenizer,
    prompt: Path | None = None,
    ta_tok: TaTok | None = None,
    eagle: Transformer | None = None,
    upsampler: Upsampler | None = None,
) -> Sources:
    """Read the word tables, and check that all files belong together.

    Raises:
        CheckpointError: a file is not what it should be, or the files contradict each other; all faults are listed.
    """
    sources = Sources(
        drafter, target, vq, None if prompt is None else read_tensor_file(prompt), ta_tok, eagle, upsampler
    )
    faults = [
        *_model_faults(sources),
        *_prompt_faults(sources),
        *_ta_tok_faults(sources),
        *_upsampler_faults(sources),
    ]
    if faults:
        raise CheckpointError(
            f"{drafter.file.path} cannot draft for {target.file.path}",
            found="\n            ".join(faults),
            expected="a drafter, a target and a VQ tokenizer that were trained together",
            fix="give checkpoints of one family",
        )
    return sources


def read_reference_sources(folder: Path, ratio: int, *, headed: bool = False, upsampler: Path | None = None) -> Sources:
    """The small trained family that mulo ships.

    Args:
        folder: of the family's weights.
        ratio: 2 for the target of 64 px, 4 for that of 128 px.
        headed: whether the target brings its EAGLE head, where there is one.
        upsampler: checkpoint of a learned upsampler.

    Raises:
        CheckpointError: a file is missing or not what it should be.
    """
    tokenizer = read_source_tokenizer(folder / "vq.safetensors")
    pixels = tokenizer.config.pixels_per_token
    drafter = read_source_transformer(folder / "drafter-32px.safetensors", pixels_per_token=pixels)
    target = read_source_transformer(folder / REFERENCE_TARGETS[ratio], pixels_per_token=pixels)
    head = folder / REFERENCE_HEADS[ratio]
    return read_sources(
        drafter,
        target,
        tokenizer,
        folder / "prompt.safetensors",
        eagle=read_source_eagle(head if headed and head.is_file() else None, target),
        upsampler=read_source_upsampler(upsampler),
    )


def _model_faults(sources: Sources) -> Iterator[str]:
    drafter, target = sources.drafter.config, sources.target.config
    for name in ("family", "vocabulary", "prefix", "feature_size", "classes"):
        if (low := getattr(drafter, name)) != (high := getattr(target, name)):
            yield f"{name} is {low} in the drafter and {high} in the target"
    if target.vocabulary != (codes := sources.vq.config.vocabulary):
        yield f"vocabulary is {target.vocabulary} in the target and {codes} in the VQ tokenizer"
    if drafter.grid > target.grid:
        yield f"grid is {drafter.grid} in the drafter and {target.grid} in the target, so that the two are exchanged"
    elif target.grid not in [drafter.grid * ratio for ratio in RATIOS]:
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


def _ta_tok_faults(sources: Sources) -> Iterator[str]:
    config = sources.target.config
    if sources.ta_tok is None:
        if config.condition == "ta_tok":
            yield "the models read features of a TA-Tok, and none is given: use `mulo-export tar`"
    elif config.condition != "ta_tok":
        yield f"a TA-Tok is given, and the models are of {config.family}: use `mulo-export llamagen`"
    elif math.isqrt(config.prefix) ** 2 != config.prefix:
        yield f"prefix is {config.prefix}, and TA-Tok codes form a square"
    elif (width := sources.ta_tok.config.dim) != config.feature_size:
        yield f"{sources.ta_tok.file.path} makes features of width {width}, the models read {config.feature_size}"


def _upsampler_faults(sources: Sources) -> Iterator[str]:
    if sources.upsampler is None:
        return
    config, path = sources.upsampler.config, sources.upsampler.file.path
    if config.ratio != sources.ratio:
        yield f"{path} upsamples by {config.ratio}, and the models' grids differ by {sources.ratio}"
    if config.code_size != (size := sources.vq.config.code_size):
        yield f"{path} reads codes of width {config.code_size}, those of the VQ tokenizer have {size}"
