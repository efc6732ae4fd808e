"""LlamaGen repackaged for Hugging Face's Llama, as LANTERN does (jadohu/LlamaGen-T2I): other names, split projections.

Its EAGLE heads (jadohu/llamagen_drafter) are named alike, without "model." in front.

The numbers are LlamaGen's: queries and keys are not permuted, and turn in adjacent pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord

__all__ = ["has_split_projections", "joined_projections"]

_SPLIT = {"model.layers.0.self_attn.q_proj.weight", "layers.0.self_attn.q_proj.weight"}
_CONDITION = "model.cls_embedding."
_HEAD = "fc.weight"
_NAMES = {
    "model.embed_tokens.weight": "tok_embeddings.weight",
    "embed_tokens.weight": "tok_embeddings.weight",
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
_LAYER = re.compile(r"(?:model\.)?layers\.(\d+)\.(.+)")
_QUERY = re.compile(r"(?:model\.)?layers\.(\d+)\.self_attn\.q_proj\.weight")


def has_split_projections(file: TensorFile) -> bool:
    """Whether the keys are those of the repackaging."""
    marked = _HEAD in file.tensors or any(name.startswith(_CONDITION) for name in file.tensors)
    return marked and bool(_SPLIT & file.tensors.keys())


def joined_projections(file: TensorFile) -> TensorFile:
    """`file` under LlamaGen's own names, query, key and value being one tensor again; nothing is read.

    A layer whose three projections are not alike keeps them, so that they are told as surplus.
    """
    records = {_name(name): replace(record, name=_name(name)) for name, record in file.tensors.items()}
    for layer in filter(None, map(_QUERY.fullmatch, file.tensors)):
        names = [layer[0].replace("q_proj", part) for part in ("q_proj", "k_proj", "v_proj")]
        if _alike([file.tensors.get(name) for name in names]):
            joined = _joined(f"layers.{layer[1]}.attention.wqkv.weight", *(records.pop(name) for name in names))
            records[joined.name] = joined
    return replace(file, tensors=records, verbatim=False)


def _alike(records: Sequence[TensorRecord | None]) -> bool:
    first = records[0]
    return all(record and first and (record.dtype, record.shape) == (first.dtype, first.shape) for record in records)


def _joined(name: str, first: TensorRecord, *others: TensorRecord) -> TensorRecord:
    """The rows of all records, one after another."""
    parts = 1 + len(others)
    rows, *columns = first.shape
    further = tuple(record.offset for record in others)
    return TensorRecord(name, first.dtype, (parts * rows, *columns), first.offset, parts * first.size, further)


def _name(name: str) -> str:
    """LlamaGen's name of a tensor; one without a name there keeps its own."""
    layer = _LAYER.fullmatch(name)
    if layer is not None and layer[2] in _LAYER_NAMES:
        return f"layers.{layer[1]}.{_LAYER_NAMES[layer[2]]}"
    return _NAMES.get(name, name.removeprefix("model.") if name.startswith(_CONDITION) else name)
