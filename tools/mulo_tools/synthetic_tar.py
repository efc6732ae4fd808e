"""Tar's published pair of AR-DTok checkpoints, and what they decode with, of random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mulo_export.checkpoints.ar_dtok import PUBLISHED_PREFIX
from mulo_export.checkpoints.ta_tok import TaTokConfig, ta_tok_shapes
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.checkpoints.vq import VqConfig
from mulo_export.sources import (
    Sources,
    read_source_ta_tok,
    read_source_tokenizer,
    read_source_transformer,
    read_sources,
)

from mulo_tools.synthetic import write_random_checkpoint, write_random_tensors
from mulo_tools.synthetic_vq import VQ16, write_random_tokenizer

__all__ = ["LP", "TarShape", "write_random_tar"]


@dataclass(frozen=True, slots=True)
class TarShape:
    """Shapes of models that belong together.

    Attributes:
        transformer: of drafter and target, whatever its grid.
        ta_tok: of what makes features of codes.
        vq: of the tokenizer.
    """

    transformer: TransformerConfig
    ta_tok: TaTokConfig
    vq: VqConfig


LP = TarShape(
    transformer=TransformerConfig(
        family="tar",
        layers=30,
        heads=20,
        dim=1280,
        ffn=3584,
        vocabulary=16384,
        grid=16,
        prefix=PUBLISHED_PREFIX,
        feature_size=1152,
        classes=None,
    ),
    ta_tok=TaTokConfig(
        codes=65536, code_size=1536, projected=1536, patch=1536, layers=3, dim=1152, heads=12, ffn=3072, side=16
    ),
    vq=VQ16,
)
"""AR-DTok-LP, the part of TA-Tok that decodes codes, and VQ-16, as published (arXiv 2506.18898)."""


def write_random_tar(
    folder: Path, shape: TarShape, *, drafter: int, target: int, dtype: str, sparse: bool = False
) -> Sources:
    """Write checkpoints into the empty `folder`, and read their headers.

    Args:
        folder: where to.
        shape: of the models.
        drafter: tokens along one side of the drafter's grid.
        target: likewise, of the target's.
        dtype: of the transformers, F32 or F16.
        sparse: leave the transformers' weights holes of zeros, which take no disk and no time.
    """
    for seed, (role, grid) in enumerate((("drafter", drafter), ("target", target))):
        rows = shape.transformer.prefix + grid**2 - 1
        config = replace(shape.transformer, grid=grid, position_rows=rows)
        write_random_checkpoint(folder / f"{role}.safetensors", config, dtype=dtype, sparse=sparse, seed=seed)
    write_random_tensors(folder / "ta_tok.safetensors", ta_tok_shapes(shape.ta_tok), {})
    write_random_tokenizer(folder / "vq.safetensors", shape.vq)
    low, high = (read_source_transformer(folder / f"{role}.safetensors") for role in ("drafter", "target"))
    vq, ta_tok = read_source_tokenizer(folder / "vq.safetensors"), read_source_ta_tok(folder / "ta_tok.safetensors")
    return read_sources(low, high, vq, ta_tok=ta_tok)
