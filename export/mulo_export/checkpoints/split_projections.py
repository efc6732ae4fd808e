"""LlamaGen repackaged for Hugging Face's Llama, as LANTERN does (jadohu/LlamaGen-T2I): other names, split projections.

The numbers are LlamaGen's: queries and keys are not permuted, and turn in adjacent pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord

__all__ = ["has_split_projections", "joined_projections"]

_SPLIT = "model.layers.0.self_attn.q_proj.weight"
_CONDITION = "model.cls_embedding."
_PARTS = ("q_proj", "k_proj", "v_proj")
_NAMES = {
    "model.embed_tokens.weight": "tok_embeddings.weight",
    "model.norm.weight": "norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "self_attn.o_proj.weight": "attention.wo.weight",
    "mlp.gate_proj.weight": "feed_forward.w1.weight",
    "mlp.up_proj.weight": "feed_forward.w3.weight",
    "mlp.down_proj.weight": "feed_forward.w2.weight",
    "input_layernorm.weight": "attention_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")


def has_split_projections(file: TensorFile) -> bool:
    """Whether the keys are those of the repackaging."""
    return _SPLIT in file.tensors and any(name.startswith(_CONDITION) for name in file.tensors)


def joined_projections(file: TensorFile) -> TensorFile:
    """`file` under LlamaGen's own names, query, key and value being one tensor again; nothing is read.

    A layer whose three projections are not alike keeps them, so that they are told as surplus.
    """
    records = {_name(name): replace(record, name=_name(name)) for name, record in file.tensors.items()}
    for joined in _joined(file):
        records[joined.name] = joined
        layer = joined.name.split(".")[1]
        for part in _PARTS:
            del records[f"model.layers.{layer}.self_attn.{part}.weight"]
    return replace(file, tensors=records, verbatim=False)


def _joined(file: TensorFile) -> Iterator[TensorRecord]:
    for name in file.tensors:
        layer = _LAYER.fullmatch(name)
        if layer is None or not layer[2].startswith("self_attn.q_proj."):
            continue
        parts = [file.tensors.get(name.replace("q_proj", part)) for part in _PARTS]
        first, second, third = parts
        if first is None or second is None or third is None or not _alike(first, second, third):
            continue
        rows, *others = first.shape
        yield TensorRecord(
            f"layers.{layer[1]}.attention.wqkv.weight",
            first.dtype,
            (3 * rows, *others),
            first.offset,
            3 * first.size,
            (second.offset, third.offset),
        )


def _alike(first: TensorRecord, *others: TensorRecord) -> bool:
    return all((record.dtype, record.shape) == (first.dtype, first.shape) for record in others)


def _name(name: str) -> str:
    """LlamaGen's name of a tensor; one without a name there keeps its own."""
    layer = _LAYER.fullmatch(name)
    if layer is not None and layer[2] in _LAYER_NAMES:
        return f"layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}"
    return _NAMES.get(name, name.removeprefix("model.") if name.startswith(_CONDITION) else name)
