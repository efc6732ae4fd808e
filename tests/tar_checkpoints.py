"""Tiny checkpoints of Tar in the published layout: AR-DTok, TA-Tok and what they decode with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bundles import VOCABULARY, vq_tensors
from mulo_export.checkpoints.ta_tok import TaTokConfig, ta_tok_shapes
from mulo_export.sources import (
    Sources,
    read_source_ta_tok,
    read_source_tokenizer,
    read_source_transformer,
    read_sources,
)
from numpy.typing import NDArray
from torch_checkpoints import golden_tensors, save_layout, save_tar

__all__ = [
    "CODES",
    "PREFIX",
    "TA_TOK",
    "TarCheckpoints",
    "ar_dtok_tensors",
    "fixed_positions",
    "ta_tok_tensors",
    "tar_checkpoints",
    "tar_sources",
    "unused_tensors",
]

Tensors = dict[str, NDArray[Any]]

CODES = 50
PREFIX = 9
TA_TOK = TaTokConfig(codes=CODES, code_size=12, projected=10, patch=14, layers=2, dim=192, heads=2, ffn=48, side=4)
_LAYERS, _DIM, _FFN = 2, 32, 48


@dataclass(frozen=True, slots=True)
class TarCheckpoints:
    """Paths of checkpoints that belong together."""

    drafter: Path
    target: Path
    ta_tok: Path
    vq: Path


def tar_checkpoints(directory: Path, *, ratio: int = 2) -> TarCheckpoints:
    """Write a drafter of 4 x 4 tokens, a target `ratio` times as wide, a TA-Tok and a VQ tokenizer."""
    paths = TarCheckpoints(*(directory / name for name in ("low.pth", "high.pth", "ta_tok.pth", "vq.pt")))
    for seed, (path, grid) in enumerate([(paths.drafter, 4), (paths.target, 4 * ratio)]):
        save_tar(path, ar_dtok_tensors(grid, seed=seed), {"cls_token_num": PREFIX, "max_seq_len": grid**2, "n_head": 2})
    save_tar(paths.ta_tok, ta_tok_tensors(TA_TOK) | unused_tensors(), {"input_size": 384}, name="ta_tok")
    save_layout(paths.vq, vq_tensors(np.random.default_rng(2), channels=32), "model")
    return paths


def tar_sources(paths: TarCheckpoints, *, prefix: int | None = None) -> Sources:
    """The headers of `paths`, as the exporter wants them."""
    drafter, target = (read_source_transformer(path, prefix=prefix) for path in (paths.drafter, paths.target))
    return read_sources(drafter, target, read_source_tokenizer(paths.vq), ta_tok=read_source_ta_tok(paths.ta_tok))


def ar_dtok_tensors(
    grid: int, *, prefix: int = PREFIX, layers: int = _LAYERS, dim: int = _DIM, seed: int = 0
) -> Tensors:
    """An AR-DTok with a learned table of positions."""
    shapes: dict[str, tuple[int, ...]] = {"abs_pe": (1, grid**2 + prefix - 1, dim)}
    shapes |= {"clip_proj.weight": (dim, TA_TOK.dim), "clip_proj.bias": (dim,)}
    shapes |= {"tok_embeddings.weight": (VOCABULARY, dim), "norm.weight": (dim,), "output.weight": (VOCABULARY, dim)}
    for layer in range(layers):
        stem = f"layers.{layer}"
        shapes |= {f"{stem}.attention.wqkv.weight": (3 * dim, dim), f"{stem}.attention.wo.weight": (dim, dim)}
        shapes |= {f"{stem}.feed_forward.{w}.weight": (_FFN, dim) for w in ("w1", "w3")}
        shapes |= {f"{stem}.feed_forward.w2.weight": (dim, _FFN)}
        shapes |= {f"{stem}.{norm}.weight": (dim,) for norm in ("attention_norm", "ffn_norm")}
    return golden_tensors(shapes, seed)


def fixed_positions(rows: int, dim: int) -> NDArray[np.float32]:
    """The table of a model whose positions were not learned: the sines of every frequency, then the cosines."""
    angles = np.outer(np.arange(rows), 10000.0 ** (-np.arange(dim // 2) / (dim / 2)))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[None].astype(np.float32)


def ta_tok_tensors(config: TaTokConfig) -> Tensors:
    """The part of a TA-Tok that decodes codes."""
    return golden_tensors(ta_tok_shapes(config), 7)


def unused_tensors() -> Tensors:
    """Some of what the file holds beside: the encoder, the teacher and the head that nothing reads."""
    names = (
        "encoder.vision_model.post_layernorm.weight",
        "teacher.vision_model.post_layernorm.weight",
        "decoder.vision_model.head.probe",
        "bottleneck.in_linear.weight",
        "encode_task_layer.0.weight",
        "scale_layer.scale",
    )
    return golden_tensors(dict.fromkeys(names, (3,)))
