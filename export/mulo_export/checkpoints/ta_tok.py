"""TA-Tok, the text-aligned tokenizer of Tar (Han et al., arXiv 2506.18898): the part that decodes codes to features.

That part is a codebook, projected; a SigLIP2 vision model of a few layers without its pooling head; and a task layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.family import family_name, is_ta_tok
from mulo_export.checkpoints.shape_check import check_tensors
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.transformer import layer_count, matrix

__all__ = [
    "CODEBOOK",
    "DECODER",
    "OUTPUT",
    "PATCH",
    "POSITIONS",
    "PROJECTION",
    "TASK",
    "TaTokConfig",
    "read_ta_tok",
    "ta_tok_shapes",
]

CODEBOOK = "bottleneck.regularizer.embedding.weight"
PROJECTION = "bottleneck.regularizer.embedding_proj"
OUTPUT = "bottleneck.out_linear"
DECODER = "decoder.vision_model"
PATCH = f"{DECODER}.embeddings.patch_embedding"
POSITIONS = f"{DECODER}.embeddings.position_embedding.weight"
TASK = "decode_task_layer"

_ENCODING = ("bottleneck.in_linear.*", "encode_task_layer.*", "encoder.*", "scale_layer.*", "vision_tower.*")
_IGNORED = (*_ENCODING, "teacher.*", f"{DECODER}.head.*")
_HEAD_WIDTH = 96
_NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class TaTokConfig:
    """The shape of TA-Tok's decoding part.

    Attributes:
        codes: entries of the codebook.
        code_size: numbers in an entry.
        projected: width of a projected entry.
        patch: width of what the decoder embeds.
        layers: blocks of the decoder.
        dim: width of the decoder, and of a feature.
        heads: attention heads of the decoder.
        ffn: inner width of its feed-forward blocks.
        side: positions along one side of the learned position table.
        norm_eps: added to the variance in every norm.
    """

    codes: int
    code_size: int
    projected: int
    patch: int
    layers: int
    dim: int
    heads: int
    ffn: int
    side: int
    norm_eps: float = _NORM_EPS


def read_ta_tok(file: TensorFile) -> TaTokConfig:
    """The config of the TA-Tok in `file`, every key and shape of whose decoding part is checked.

    Raises:
        CheckpointError: another architecture; missing, surplus or misshapen tensors, all of which are listed.
    """
    if not is_ta_tok(file):
        raise CheckpointError(
            f"{file.path}: not a TA-Tok",
            found=family_name(file),
            expected=CODEBOOK,
            fix="give Tar's ta_tok.pth",
        )
    codes, code_size = matrix(file, CODEBOOK)
    patch, projected = matrix(file, f"{OUTPUT}.weight")
    dim = matrix(file, f"{PATCH}.weight")[0]
    stem = f"{DECODER}.encoder.layers."
    config = TaTokConfig(
        codes=codes,
        code_size=code_size,
        projected=projected,
        patch=patch,
        layers=layer_count(file, stem),
        dim=dim,
        heads=dim // _HEAD_WIDTH,
        ffn=matrix(file, f"{stem}0.mlp.fc1.weight")[0],
        side=math.isqrt(matrix(file, POSITIONS)[0]),
    )
    check_tensors(file, ta_tok_shapes(config), _IGNORED, "a TA-Tok")
    return config


def ta_tok_shapes(config: TaTokConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that decodes codes."""
    shapes: dict[str, tuple[int, ...]] = {CODEBOOK: (config.codes, config.code_size)}
    shapes |= _linear(PROJECTION, config.code_size, config.projected)
    shapes |= _linear(OUTPUT, config.projected, config.patch) | _linear(PATCH, config.patch, config.dim)
    shapes |= {POSITIONS: (config.side**2, config.dim)}
    for layer in range(config.layers):
        shapes |= _layer_shapes(f"{DECODER}.encoder.layers.{layer}", config)
    shapes |= _norm(f"{DECODER}.post_layernorm", config.dim)
    return shapes | _linear(f"{TASK}.0", config.dim, config.dim) | _linear(f"{TASK}.2", config.dim, config.dim)


def _layer_shapes(stem: str, config: TaTokConfig) -> dict[str, tuple[int, ...]]:
    shapes = _norm(f"{stem}.layer_norm1", config.dim) | _norm(f"{stem}.layer_norm2", config.dim)
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        shapes |= _linear(f"{stem}.self_attn.{name}", config.dim, config.dim)
    shapes |= _linear(f"{stem}.mlp.fc1", config.dim, config.ffn)
    return shapes | _linear(f"{stem}.mlp.fc2", config.ffn, config.dim)


def _norm(stem: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{stem}.weight": (width,), f"{stem}.bias": (width,)}


def _linear(stem: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{stem}.weight": (outputs, inputs), f"{stem}.bias": (outputs,)}
