"""Which model a checkpoint holds, told by its keys."""

from __future__ import annotations

from collections.abc import Mapping

from mulo_export.checkpoints.ar_dtok import FEATURE_WEIGHT, POSITIONS
from mulo_export.checkpoints.llamagen import CLASS_TABLE, TEXT_INPUT
from mulo_export.checkpoints.tensor_file import TensorFile

__all__ = ["family_name", "is_ar_dtok", "is_llamagen", "is_ta_tok", "is_vq"]

_OTHERS: Mapping[str, str] = {
    POSITIONS: "an AR-DTok that is not conditioned on TA-Tok features",
    "model.layers.0.self_attn.q_norm.weight": "Chameleon or Lumina-mGPT",
    "model.layers.0.self_attn.q_proj.bias": "Qwen2.5, the language model of Tar",
    "model.layers.0.self_attn.q_proj.weight": "a language model of Llama's kind",
}
"""Models that mulo does not export, by a key of theirs."""


def is_llamagen(file: TensorFile) -> bool:
    """Whether the keys are those of a LlamaGen transformer, class- or text-conditional."""
    return POSITIONS not in file.tensors and "tok_embeddings.weight" in file.tensors and _has_class_or_text(file)


def is_ar_dtok(file: TensorFile) -> bool:
    """Whether the keys are those of an AR-DTok of Tar that is conditioned on features."""
    return {POSITIONS, FEATURE_WEIGHT} <= file.tensors.keys()


def is_vq(file: TensorFile) -> bool:
    """Whether the keys are those of a VQ tokenizer."""
    return {"quantize.embedding.weight", "post_quant_conv.weight"} <= file.tensors.keys()


def is_ta_tok(file: TensorFile) -> bool:
    """Whether the keys are those of a TA-Tok."""
    return "bottleneck.regularizer.embedding.weight" in file.tensors


def family_name(file: TensorFile) -> str:
    """What the keys say that the file holds, in words."""
    exported = {
        "a LlamaGen transformer": is_llamagen,
        "an AR-DTok transformer of Tar": is_ar_dtok,
        "a VQ tokenizer": is_vq,
        "a TA-Tok": is_ta_tok,
    }
    for name, is_family in exported.items():
        if is_family(file):
            return name
    for key, name in _OTHERS.items():
        if key in file.tensors:
            return name
    return f"{len(file.tensors)} tensors such as {', '.join(sorted(file.tensors)[:3])}"


def _has_class_or_text(file: TensorFile) -> bool:
    return bool({CLASS_TABLE, TEXT_INPUT} & file.tensors.keys())
