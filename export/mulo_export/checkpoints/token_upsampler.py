"""Learned upsamplers: what a checkpoint's keys and shapes say of the network."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.shape_check import check_tensors
from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["UpsamplerConfig", "convolutions", "read_token_upsampler"]

_KERNEL = 3


@dataclass(frozen=True, slots=True)
class UpsamplerConfig:
    """The shape of a learned upsampler.

    Attributes:
        ratio: rows that become of one.
        code_size: width of the code vectors that go in and come out.
        width: channels in between.
        depth: residual convolutions.
    """

    ratio: int
    code_size: int
    width: int
    depth: int


def read_token_upsampler(file: TensorFile) -> UpsamplerConfig:
    """The shape of the upsampler in `file`, every key and shape of which is checked.

    Raises:
        CheckpointError: it is no upsampler, or tensors are missing, surplus or misshapen, all of which are listed.
    """
    first, last = (file.tensors.get(f"{name}.weight") for name in ("conv_in", "conv_out"))
    if first is None or last is None or len(first.shape) != 4 or len(last.shape) != 4:
        raise CheckpointError(
            f"{file.path}: not a learned upsampler",
            expected="convolutions conv_in, blocks.* and conv_out",
            fix="give a file of `mulo train upsampler`",
        )
    width, code_size = first.shape[:2]
    depth = sum(name.startswith("blocks.") and name.endswith(".weight") for name in file.tensors)
    config = UpsamplerConfig(isqrt(last.shape[0] // code_size), code_size, width, depth)
    shapes: dict[str, tuple[int, ...]] = {}
    shapes |= {f"{name}.weight": (outputs, inputs, _KERNEL, _KERNEL) for name, inputs, outputs in convolutions(config)}
    shapes |= {f"{name}.bias": (outputs,) for name, _, outputs in convolutions(config)}
    check_tensors(file, shapes, (), f"a learned upsampler of ratio {config.ratio}")
    return config


def convolutions(config: UpsamplerConfig) -> list[tuple[str, int, int]]:
    """Name, inputs and outputs of every convolution, in order."""
    return [
        ("conv_in", config.code_size, config.width),
        *((f"blocks.{block}", config.width, config.width) for block in range(config.depth)),
        ("conv_out", config.width, config.code_size * config.ratio**2),
    ]
