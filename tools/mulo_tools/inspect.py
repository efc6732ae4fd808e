"""`mulo inspect`: what a bundle holds, where it came from, and what it needs to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import click
from mulo_engines.bundle import Bundle
from mulo_engines.manifest import ConditionRecord, Manifest, ModelRecord
from mulo_engines.memory import MemoryPlan
from mulo_engines.tensorrt.engine_set import engines_root, read_records
from mulo_engines.tensorrt.record import EngineSetRecord
from mulo_runtime import AutoRegressive, ZipAR
from mulo_runtime.capacity import lane_memory
from mulo_runtime.defaults import default_method, default_sampling
from mulo_runtime.prompt import WordPromptEncoder
from rich.console import Console
from rich.table import Column, Table

from mulo_tools.record import bundle_digest

__all__ = ["inspect_command"]

_LIBRARIES = ("onnxruntime", "onnxruntime-gpu")
"""The distributions that run bundles."""

_NOTHING_RUNS = "nothing that is installed; pip install 'mulo[cpu]'"


@click.command("inspect")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--memory", "with_memory", is_flag=True, help="Show what one lane allocates, part by part.")
@click.option(
    "--engines", type=click.Path(path_type=Path), help="Where its engines are  [default: engines/ inside the bundle]"
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def inspect_command(bundle: Path, with_memory: bool, engines: Path | None, as_json: bool) -> None:
    """Verify every file of the bundle in the folder BUNDLE, and show what it holds and what it needs."""
    opened = Bundle.open(bundle)
    compiled = read_records(engines_root(opened.path, engines))
    memory = _memory(opened.manifest)
    if as_json:
        click.echo(json.dumps(_as_json(opened, memory, compiled), indent=2))
        return
    console = Console(markup=False, highlight=False)
    for table in _tables(opened):
        console.print(table)
    if with_memory:
        console.print(_pairs_table("memory of one lane, in MiB", _mebibytes(memory)))
        for name, record in compiled.items():
            console.print(_engines_table(name, record))


def _memory(manifest: Manifest) -> MemoryPlan:
    return lane_memory(manifest, [AutoRegressive(), ZipAR(), default_method(manifest)])


def _as_json(bundle: Bundle, memory: MemoryPlan, compiled: Mapping[str, EngineSetRecord]) -> dict[str, Any]:
    return {
        "path": str(bundle.path),
        "sha256": bundle_digest(bundle),
        "words": _words(bundle),
        "defaults": _defaults(bundle.manifest),
        "runs_on": _installed(),
        "memory": {**memory.parts, "total": memory.total},
        "engines": {name: record.model_dump(mode="json") for name, record in compiled.items()},
        "manifest": bundle.manifest.model_dump(mode="json"),
    }


def _tables(bundle: Bundle) -> Iterable[Table]:
    manifest = bundle.manifest
    yield _pairs_table(bundle.path.name, _overview(bundle))
    yield _pairs_table("defaults", _defaults(manifest))
    files = Table("file", Column("bytes", justify="right"), "SHA-256", title="files, all verified")
    for file in manifest.files:
        files.add_row(file.path, f"{file.size:,}", file.sha256[:16])
    yield files
    origin = Table("role", "checkpoint", "SHA-256", title="provenance")
    for record in manifest.provenance:
        origin.add_row(record.role, record.file_name, record.sha256[:16])
    yield origin
    yield _parity_table(manifest)


def _overview(bundle: Bundle) -> Mapping[str, object]:
    manifest = bundle.manifest
    rows, cols = (side * manifest.pixels_per_token for side in (manifest.target.rows, manifest.target.cols))
    words = _words(bundle)
    return {
        "SHA-256": bundle_digest(bundle),
        "family": manifest.family,
        "precision": manifest.precision,
        "image": f"{cols} x {rows} pixels",
        "drafter": _describe_model(manifest.drafter),
        "target": _describe_model(manifest.target),
        "codebook": f"{manifest.vocabulary} entries; the {manifest.pool_k_max} nearest of each can be pooled",
        "condition": _describe_condition(manifest.condition),
        **({"words": ", ".join(words)} if words else {}),
        "runs on": ", ".join(f"{name} {found}" for name, found in _installed().items()) or _NOTHING_RUNS,
        "memory": f"{_memory(manifest).total / 2**20:,.1f} MiB for one lane",
    }


def _describe_model(model: ModelRecord) -> str:
    size = f"{model.layers} layers, {model.heads} heads of {model.head_dim}, width {model.dim}"
    return f"{model.rows} x {model.cols} tokens; {size}; {model.cache_dtype} cache"


def _describe_condition(condition: ConditionRecord) -> str:
    if condition.kind == "class":
        return f"class id, 0 to {(condition.classes or 1) - 1}"
    if condition.kind == "ta_tok":
        return f"{condition.length} TA-Tok codes, 0 to {(condition.codes or 1) - 1}"
    return f"{condition.kind} features, {condition.length} positions of {condition.feature_size}"


def _words(bundle: Bundle) -> list[str]:
    prompt = bundle.manifest.prompt
    return sorted(WordPromptEncoder.load(bundle.file(prompt.file)).words) if prompt else []


def _defaults(manifest: Manifest) -> dict[str, Any]:
    return asdict(default_sampling(manifest)) | asdict(default_method(manifest))


def _installed() -> dict[str, str]:
    """The version of every library that can run the bundle here."""
    installed = {distribution.name: distribution.version for distribution in distributions()}
    return {name: installed[name] for name in _LIBRARIES if name in installed}


def _parity_table(manifest: Manifest) -> Table:
    table = Table("graph", "metric", "value", "tolerance", title="parity with the reference, at export")
    for record in manifest.parity:
        table.add_row(record.graph, record.metric, f"{record.value:.2g}", f"{record.tolerance:.2g}")
    if manifest.parity_skipped:
        table.add_row("skipped", "", "", "", style="bold red")
    return table


def _engines_table(name: str, record: EngineSetRecord) -> Table:
    """What every engine takes beside the buffers: its plan, weights included, and what it holds while it runs."""
    columns = (Column(name, justify="right") for name in ("S", "plan", "activations, upper estimate"))
    table = Table("engine", *columns, title=f"{name}, in MiB, for {record.images} images and {record.queries} queries")
    for engine in record.engines:
        sizes = engine.plan.size, engine.activation_bytes
        slots = "" if engine.slots is None else str(engine.slots)
        table.add_row(engine.graph, slots, *(f"{size / 2**20:,.1f}" for size in sizes))
    return table


def _mebibytes(memory: MemoryPlan) -> Mapping[str, str]:
    return {part: f"{size / 2**20:,.1f}" for part, size in [*memory.parts.items(), ("total", memory.total)]}


def _pairs_table(title: str, pairs: Mapping[str, object]) -> Table:
    table = Table(title=title, show_header=False)
    for name, value in pairs.items():
        table.add_row(name, str(value))
    return table
