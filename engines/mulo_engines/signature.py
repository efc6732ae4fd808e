"""The inputs and outputs that every graph of a bundle must have, whoever exported it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from mulo_engines.cache_tensors import cache_names, updated_name
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import EngineMismatch
from mulo_engines.manifest import ConditionRecord, Manifest, ModelRecord

__all__ = ["GRAPH_NAMES", "Declared", "Signature", "check_signature", "graph_signature"]

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    # numpy has no bfloat16: its buffers hold the bits.
    "bfloat16": np.dtype(np.uint16),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}


class Declared(Protocol):
    """What declares inputs and outputs by name: an engine, or a network before it is built."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def inputs(self) -> Mapping[str, TensorSpec]: ...  # noqa: D102
    @property
    def outputs(self) -> Mapping[str, TensorSpec]: ...  # noqa: D102


class Signature(NamedTuple):
    """Declared inputs and outputs; equal symbols are equal sizes."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def graph_signature(manifest: Manifest, graph: str) -> Signature:
    """The signature of `graph` in a bundle with this manifest.

    Raises:
        EngineMismatch: mulo knows no graph of this name.
    """
    if graph not in _SIGNATURES:
        raise EngineMismatch(f"{graph!r} is no graph that mulo knows", expected=", ".join(GRAPH_NAMES))
    return _SIGNATURES[graph](manifest)


def check_signature(declared: Declared, signature: Signature) -> None:
    """Compare what an engine or a network declares with `signature`; names of symbols may differ.

    Raises:
        EngineMismatch: a name, type, number of dimensions or fixed size differs; all faults are listed.
    """
    faults = [
        *_faults("input", declared.inputs, signature.inputs),
        *_faults("output", declared.outputs, signature.outputs),
    ]
    if faults:
        raise EngineMismatch(
            f"{declared.name}: the graph is not the one that the manifest describes",
            found="; ".join(fault[0] for fault in faults),
            expected="; ".join(fault[1] for fault in faults),
            fix="export the bundle again with `mulo-export`",
        )


def _faults(kind: str, found: Mapping[str, TensorSpec], wanted: tuple[TensorSpec, ...]) -> list[tuple[str, str]]:
    names = {spec.name: spec for spec in wanted}
    faults = [(f"{kind} {name}", f"no {kind} {name}") for name in found if name not in names]
    for name, spec in names.items():
        if name not in found:
            faults.append((f"no {kind} {name}", f"{name} {spec}"))
        elif not _agree(found[name], spec):
            faults.append((f"{name} {found[name]}", f"{name} {spec}"))
    return faults


def _agree(a: TensorSpec, b: TensorSpec) -> bool:
    sizes = zip(a.shape, b.shape, strict=False)
    fixed = all(x == y for x, y in sizes if isinstance(x, int) and isinstance(y, int))
    return a.dtype == b.dtype and len(a.shape) == len(b.shape) and fixed


def _tensor(name: str, dtype: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, _DTYPES[dtype], shape)


def _transformer(model: ModelRecord, vocabulary: int) -> Signature:
    caches = cache_names(model.layers)
    shape = ("B", model.heads, "S", model.head_dim)
    inputs = (
        _tensor("cond_embeds", model.cache_dtype, "B", "C", model.dim),
        _tensor("token_ids", "int64", "B", "Q"),
        _tensor("position_ids", "int64", "B", "T"),
        _tensor("write_index", "int64", "B"),
        _tensor("attn_mask", "bool", "M", 1, "T", "S"),
        _tensor("logit_rows", "int64", "B", "R"),
        *(_tensor(name, model.cache_dtype, *shape) for name in caches),
    )
    updated = (_tensor(updated_name(name), model.cache_dtype, *shape) for name in caches)
    return Signature(inputs, (_tensor("logits", "float32", "B", "R", vocabulary), *updated))


def _target(manifest: Manifest) -> Signature:
    inputs, outputs = _transformer(manifest.target, manifest.vocabulary)
    if manifest.eagle is None:
        return Signature(inputs, outputs)
    return Signature(inputs, (*outputs, _hidden("hidden", manifest.target)))


def _eagle(manifest: Manifest) -> Signature:
    # A bundle without a head has no such graph; its signature would be that of a head as wide as the target.
    model = manifest.eagle or manifest.target
    inputs, outputs = _transformer(model, manifest.vocabulary)
    return Signature((*inputs, _hidden("previous_hidden", model)), (*outputs, _hidden("hidden", model)))


def _hidden(name: str, model: ModelRecord) -> TensorSpec:
    return _tensor(name, model.cache_dtype, "B", "T", model.dim)


def _condition(condition: ConditionRecord, model: ModelRecord) -> Signature:
    inputs = {
        "class": _tensor("class_id", "int64", "N"),
        "text": _tensor("text_features", "float32", "N", condition.length, condition.feature_size or 0),
        "ta_tok": _tensor("ta_tok_codes", "int64", "N", condition.length),
    }
    output = _tensor("cond_embeds", model.cache_dtype, "B", condition.length, model.dim)
    return Signature((inputs[condition.kind],), (output,))


def _sampler(vocabulary: int, *, full: bool) -> Signature:
    inputs = (
        _tensor("logits", "float32", "B", "R", vocabulary),
        _tensor("candidate_ids", "int64", "N", "R"),
        _tensor("uniforms", "float32", "N", "R"),
        _tensor("guidance_scale", "float32"),
        _tensor("temperature", "float32"),
        _tensor("top_k", "int64"),
        _tensor("top_p", "float32"),
        _tensor("pool_k", "int64"),
    )
    outputs = (
        _tensor("token_ids", "int64", "N", "R"),
        _tensor("candidate_prob", "float32", "N", "R"),
        _tensor("candidate_mass", "float32", "N", "R"),
    )
    probs = (_tensor("probs", "float32", "N", "R", vocabulary),) if full else ()
    return Signature(inputs, outputs + probs)


def _upsampler() -> Signature:
    low, high = _tensor("token_ids", "int64", "N", "h", "w"), _tensor("candidate_ids", "int64", "N", "rh", "rw")
    return Signature((low,), (high,))


def _downsampler() -> Signature:
    low, high = _upsampler()
    return Signature(high, low)


def _decoder(manifest: Manifest) -> Signature:
    inputs, image = (_tensor("token_ids", "int64", "N", "h", "w"),), _tensor("image", "uint8", "N", "H", "W", 3)
    return Signature(inputs, (image, _tensor("witness", "float32", "N")) if manifest.decoder_witness else (image,))


def _feed() -> Signature:
    inputs = (
        _tensor("token_log", "int64", "N", "L"),
        _tensor("new_tokens", "int64", "N", "R"),
        _tensor("write_positions", "int64", "N", "R"),
        _tensor("read_positions", "int64", "N", "Q"),
        _tensor("probability", "float32", "N", "R"),
        _tensor("witness", "float32", "N"),
    )
    outputs = (
        _tensor("token_log_out", "int64", "N", "L"),
        _tensor("token_ids", "int64", "B", "Q"),
        _tensor("witness_out", "float32", "N"),
    )
    return Signature(inputs, outputs)


_SIGNATURES: Mapping[str, Callable[[Manifest], Signature]] = {
    "drafter": lambda manifest: _transformer(manifest.drafter, manifest.vocabulary),
    "target": _target,
    "eagle": _eagle,
    "drafter.condition": lambda manifest: _condition(manifest.condition, manifest.drafter),
    "target.condition": lambda manifest: _condition(manifest.condition, manifest.target),
    "sampler": lambda manifest: _sampler(manifest.vocabulary, full=False),
    "sampler_full": lambda manifest: _sampler(manifest.vocabulary, full=True),
    "upsampler": lambda _: _upsampler(),
    "downsampler": lambda _: _downsampler(),
    "decoder": _decoder,
    "feed": lambda _: _feed(),
}
GRAPH_NAMES: tuple[str, ...] = tuple(_SIGNATURES)
"""Every graph that a bundle may have."""
