"""What `bundle.json` says about a bundle, from the checkpoints and the user's choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mulo_engines.manifest import (
    ConditionRecord,
    FileRecord,
    GraphRecord,
    Manifest,
    ModelRecord,
    ParityRecord,
    PromptRecord,
    ProvenanceRecord,
)

from mulo_export.checkpoints.llamagen import TransformerConfig
from mulo_export.options import ExportOptions
from mulo_export.precision import PRECISIONS, CacheType
from mulo_export.sources import Sources

__all__ = ["GRAPHS", "PROMPT_FILE", "ROUNDING", "describe_bundle", "graph_file", "weights_file"]

PROMPT_FILE = "prompt.safetensors"
GRAPHS: Mapping[str, str | None] = {
    "drafter": "drafter",
    "target": "target",
    "drafter.condition": "drafter",
    "target.condition": "target",
    "upsampler": "vq",
    "downsampler": "vq",
    "decoder": "vq",
    "sampler": None,
    "sampler_full": None,
    "feed": None,
}
"""The graphs of a bundle and the role whose weights each one reads."""

ROUNDING = "half_up"
"""How LlamaGen's own scripts turn floats into bytes."""


def graph_file(graph: str) -> str:
    """Path of a graph inside its bundle."""
    return f"{graph}.onnx"


def weights_file(role: str) -> str:
    """Path of a role's weights inside its bundle, which is also what the graphs call it."""
    return f"weights/{role}.safetensors"


def describe_bundle(
    sources: Sources,
    options: ExportOptions,
    files: Iterable[FileRecord],
    provenance: Iterable[ProvenanceRecord] = (),
    parity: Iterable[ParityRecord] | None = None,
) -> Manifest:
    """The manifest of the bundle that `sources` and `options` make; `parity` is None where it was skipped."""
    cache_type = PRECISIONS[options.precision].cache_type
    return Manifest(
        family=sources.target.config.family,
        precision=options.precision.value,
        ratio=sources.ratio,
        vocabulary=sources.target.config.vocabulary,
        condition=_condition(sources.target.config),
        drafter=_model(sources.drafter.config, cache_type),
        target=_model(sources.target.config, cache_type),
        pool_k_max=options.pool_k_max,
        pixels_per_token=sources.vq.pixels_per_token,
        rounding=ROUNDING,
        sampling=dict(options.sampling),
        mulo=dict(options.mulo),
        prompt=None if sources.prompt is None else PromptRecord(kind="words", file=PROMPT_FILE),
        files=tuple(files),
        graphs=tuple(_graph(name, role) for name, role in GRAPHS.items()),
        provenance=tuple(provenance),
        parity=() if parity is None else tuple(parity),
        parity_skipped=parity is None,
    )


def _condition(config: TransformerConfig) -> ConditionRecord:
    if config.classes is not None:
        return ConditionRecord(kind="class", length=config.prefix, classes=config.classes)
    return ConditionRecord(kind="text", length=config.prefix, feature_size=config.feature_size)


def _model(config: TransformerConfig, cache_type: CacheType) -> ModelRecord:
    return ModelRecord(
        rows=config.grid,
        cols=config.grid,
        layers=config.layers,
        heads=config.heads,
        head_dim=config.head_dim,
        dim=config.dim,
        cache_dtype=cache_type,
    )


def _graph(name: str, role: str | None) -> GraphRecord:
    return GraphRecord(name=name, file=graph_file(name), weights=() if role is None else (weights_file(role),))
