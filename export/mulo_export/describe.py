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

from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.options import ExportOptions
from mulo_export.precision import PRECISIONS, CacheType
from mulo_export.sources import Sources

__all__ = ["GRAPHS", "PROMPT_FILE", "bundle_graphs", "describe_bundle", "graph_file", "rounding", "weights_file"]

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
    "eagle": "eagle",
}
"""The graphs of a bundle, the last for targets with a head only, and the role whose weights each one reads.

Tar's conditions read those of "ta_tok", too, a head those of "target", and a learned upsampler its own.
"""


def bundle_graphs(sources: Sources) -> list[str]:
    """The graphs of the bundle that `sources` make."""
    return [name for name in GRAPHS if name != "eagle" or sources.eagle is not None]


def graph_file(graph: str) -> str:
    """Path of a graph inside its bundle."""
    return f"{graph}.onnx"


def rounding(config: TransformerConfig) -> str:
    """How the family's own scripts turn floats into bytes."""
    return "truncate" if config.family == "tar" else "half_up"


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
        condition=_condition(sources),
        drafter=_model(sources.drafter.config, cache_type),
        target=_model(sources.target.config, cache_type),
        pool_k_max=options.pool_k_max,
        pixels_per_token=sources.vq.config.pixels_per_token,
        rounding=rounding(sources.target.config),
        decoder_witness=True,
        steepness=options.steepness,
        sampling=dict(options.sampling),
        mulo=dict(options.mulo),
        prompt=_prompt(sources, options),
        files=tuple(files),
        eagle=None if sources.eagle is None else _model(sources.eagle.config, cache_type),
        graphs=tuple(_graph(name, _weight_roles(name, sources)) for name in bundle_graphs(sources)),
        provenance=tuple(provenance),
        parity=() if parity is None else tuple(parity),
        parity_skipped=parity is None,
    )


def _prompt(sources: Sources, options: ExportOptions) -> PromptRecord | None:
    if sources.prompt is None:
        return None
    return PromptRecord(kind="words", file=PROMPT_FILE, examples=options.examples)


def _condition(sources: Sources) -> ConditionRecord:
    config = sources.target.config
    return ConditionRecord(
        kind=config.condition,
        length=config.prefix,
        feature_size=config.feature_size if config.condition == "text" else None,
        classes=config.classes,
        codes=None if sources.ta_tok is None else sources.ta_tok.config.codes,
    )


def _model(config: TransformerConfig, cache_type: CacheType) -> ModelRecord:
    return ModelRecord(
        rows=config.grid,
        cols=config.grid,
        layers=config.layers,
        heads=config.heads,
        head_dim=config.cache_width,
        dim=config.dim,
        cache_dtype=cache_type,
    )


def _weight_roles(graph: str, sources: Sources) -> list[str]:
    """The roles whose weights `graph` reads."""
    role = GRAPHS[graph]
    if role is None:
        return []
    if role == "eagle":
        return [role, "target"]
    if graph == "upsampler" and sources.upsampler is not None:
        return [role, "upsampler"]
    return [role, "ta_tok"] if graph.endswith(".condition") and sources.ta_tok is not None else [role]


def _graph(name: str, roles: list[str]) -> GraphRecord:
    return GraphRecord(name=name, file=graph_file(name), weights=tuple(map(weights_file, roles)))
