"""LlamaGen's VQ tokenizer (Sun et al., arXiv 2406.06525): its structure, read from a checkpoint's keys and shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.family import family_name, is_vq
from mulo_export.checkpoints.shape_check import check_tensors
from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["CODEBOOK", "VqBlock", "VqConfig", "read_vq", "vq_shapes"]

CODEBOOK = "quantize.embedding.weight"

_IGNORED = ("quantize.codebook_used",)
_GROUPS = 32
_NORM_EPS = 1e-6

_Number = TypeVar("_Number", int, float)
Kind = Literal["residual", "attention", "upsample", "downsample"]


@dataclass(frozen=True, slots=True)
class VqBlock:
    """One step of the encoder or the decoder.

    Attributes:
        kind: what it does.
        stem: what the keys of its tensors start with.
        inputs: channels that it reads.
        outputs: channels that it writes; a residual block has a shortcut convolution where they differ from `inputs`.
    """

    kind: Kind
    stem: str
    inputs: int
    outputs: int


@dataclass(frozen=True, slots=True)
class VqConfig:
    """The structure of a VQ tokenizer.

    Attributes:
        vocabulary: number of codes.
        code_size: numbers in a code vector.
        latent_channels: channels between the encoder or decoder and the code vectors.
        encoder: its blocks in order, between `conv_in` and `norm_out`.
        decoder: likewise.
        groups: groups of channels that every norm makes.
        norm_eps: added to the variance in every norm.
    """

    vocabulary: int
    code_size: int
    latent_channels: int
    encoder: tuple[VqBlock, ...]
    decoder: tuple[VqBlock, ...]
    groups: int = _GROUPS
    norm_eps: float = _NORM_EPS

    @property
    def pixels_per_token(self) -> int:
        """Pixels along one side of a token."""
        return 1 << sum(block.kind == "upsample" for block in self.decoder)


def read_vq(file: TensorFile) -> VqConfig:
    """The structure of the tokenizer in `file`, every key and shape of which is checked.

    Any number of levels, of blocks in a level and of attention blocks is read from the keys; the metadata `groups`
    and `norm_eps` replace the published 32 and 1e-6.

    Raises:
        CheckpointError: another architecture, missing, surplus or misshapen tensors (all listed), or an encoder and
            decoder of different scale.
    """
    if not is_vq(file):
        raise CheckpointError(
            f"{file.path}: not a VQ tokenizer",
            found=family_name(file),
            expected=f"{CODEBOOK} and post_quant_conv.weight",
            fix="give a LlamaGen VQ checkpoint",
        )
    vocabulary, code_size = _dimensions(file, CODEBOOK, 2)
    config = VqConfig(
        vocabulary=vocabulary,
        code_size=code_size,
        latent_channels=_dimensions(file, "post_quant_conv.weight", 4)[0],
        encoder=tuple(_encoder(file)),
        decoder=tuple(_decoder(file)),
        groups=_metadata(file, "groups", _GROUPS),
        norm_eps=_metadata(file, "norm_eps", _NORM_EPS),
    )
    check_tensors(file, vq_shapes(config), _IGNORED, "a VQ tokenizer", *_structure_faults(config))
    return config


def vq_shapes(config: VqConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the model."""
    code, latent = config.code_size, config.latent_channels
    shapes: dict[str, tuple[int, ...]] = {CODEBOOK: (config.vocabulary, code)}
    shapes |= _convolution("quant_conv", latent, code, 1) | _convolution("post_quant_conv", code, latent, 1)
    shapes |= _side("encoder", 3, config.encoder, latent) | _side("decoder", latent, config.decoder, 3)
    return shapes


def _encoder(file: TensorFile) -> Iterator[VqBlock]:
    channels = _dimensions(file, "encoder.conv_in.weight", 4)[0]
    for stem, kind in [*_levels(file, "encoder", "downsample"), *_middle(file, "encoder")]:
        yield (block := _block(file, kind, stem, channels))
        channels = block.outputs


def _decoder(file: TensorFile) -> Iterator[VqBlock]:
    channels = _dimensions(file, "decoder.conv_in.weight", 4)[0]
    for stem, kind in [*_middle(file, "decoder"), *_levels(file, "decoder", "upsample")]:
        yield (block := _block(file, kind, stem, channels))
        channels = block.outputs


def _levels(file: TensorFile, side: str, resample: Kind) -> Iterator[tuple[str, Kind]]:
    """Stems of the resolution levels: residual blocks, each followed by its attention, then the change of scale."""
    for level in _children(file, f"{side}.conv_blocks"):
        for index in _children(file, f"{level}.res"):
            yield index, "residual"
            attention = index.replace(".res.", ".attn.")
            if f"{attention}.q.weight" in file.tensors:
                yield attention, "attention"
        if f"{level}.{resample}.conv.weight" in file.tensors:
            yield f"{level}.{resample}", resample


def _middle(file: TensorFile, side: str) -> Iterator[tuple[str, Kind]]:
    for stem in _children(file, f"{side}.mid"):
        yield stem, "attention" if f"{stem}.q.weight" in file.tensors else "residual"


def _children(file: TensorFile, stem: str) -> list[str]:
    """The numbered keys right below `stem`: "stem.0" to the largest there is, so that a gap is a missing tensor."""
    numbers = [name.removeprefix(f"{stem}.").split(".")[0] for name in file.tensors if name.startswith(f"{stem}.")]
    return [f"{stem}.{number}" for number in range(1 + max(map(int, filter(str.isdecimal, numbers)), default=-1))]


def _block(file: TensorFile, kind: Kind, stem: str, inputs: int) -> VqBlock:
    first = file.tensors.get(f"{stem}.conv1.weight")
    outputs = first.shape[0] if kind == "residual" and first is not None and first.shape else inputs
    return VqBlock(kind, stem, inputs, outputs)


def _side(side: str, inputs: int, blocks: tuple[VqBlock, ...], outputs: int) -> dict[str, tuple[int, ...]]:
    shapes = _convolution(f"{side}.conv_in", inputs, blocks[0].inputs, 3)
    for block in blocks:
        shapes |= _block_shapes(block)
    last = blocks[-1].outputs
    return shapes | _norm(f"{side}.norm_out", last) | _convolution(f"{side}.conv_out", last, outputs, 3)


def _block_shapes(block: VqBlock) -> dict[str, tuple[int, ...]]:
    stem, inputs, outputs = block.stem, block.inputs, block.outputs
    if block.kind == "attention":
        shapes = _norm(f"{stem}.norm", inputs)
        for name in ("q", "k", "v", "proj_out"):
            shapes |= _convolution(f"{stem}.{name}", inputs, inputs, 1)
        return shapes
    if block.kind != "residual":
        return _convolution(f"{stem}.conv", inputs, inputs, 3)
    shapes = _norm(f"{stem}.norm1", inputs) | _convolution(f"{stem}.conv1", inputs, outputs, 3)
    shapes |= _norm(f"{stem}.norm2", outputs) | _convolution(f"{stem}.conv2", outputs, outputs, 3)
    return shapes if inputs == outputs else shapes | _convolution(f"{stem}.nin_shortcut", inputs, outputs, 1)


def _norm(stem: str, channels: int) -> dict[str, tuple[int, ...]]:
    return {f"{stem}.weight": (channels,), f"{stem}.bias": (channels,)}


def _convolution(stem: str, inputs: int, outputs: int, kernel: int) -> dict[str, tuple[int, ...]]:
    return {f"{stem}.weight": (outputs, inputs, kernel, kernel), f"{stem}.bias": (outputs,)}


def _dimensions(file: TensorFile, name: str, rank: int) -> tuple[int, ...]:
    """Shape of a tensor from which a size of the model is read."""
    record = file.tensors.get(name)
    if record is None or len(record.shape) != rank:
        raise CheckpointError(
            f"{file.path}: tensor {name!r} tells a size of the model and cannot be read",
            found="nothing" if record is None else list(record.shape),
            expected=f"a tensor of {rank} dimensions",
            fix="use the checkpoint's original file",
        )
    return record.shape


def _metadata(file: TensorFile, key: str, default: _Number) -> _Number:
    """The metadata `key` as a number above 0 of the default's type; the default where there is none."""
    text = file.metadata.get(key, default)
    try:
        value = type(default)(text)
        if 0 < value < math.inf:
            return value
    except ValueError:
        pass
    raise CheckpointError(
        f"{file.path}: metadata {key!r} is not a number above 0", found=text, expected=f"such as {default}"
    )


def _structure_faults(config: VqConfig) -> Iterator[str]:
    if (down := sum(block.kind == "downsample" for block in config.encoder)) != (
        up := sum(block.kind == "upsample" for block in config.decoder)
    ):
        yield f"the encoder halves the sides {down} times and the decoder doubles them {up} times"
    widths = {width for block in (*config.encoder, *config.decoder) for width in (block.inputs, block.outputs)}
    for width in sorted(widths):
        if width % config.groups:
            yield f"{width} channels cannot be normalised in {config.groups} groups; write `groups` into the metadata"
