"""The command `mulo-export`: checkpoints -> bundle -> engines.

Exit codes: 0 published (or nothing to do in a dry run); 1 an engine, the system or an unforeseen error; 2 wrong usage;
3 a checkpoint, a bundle or the destination is refused; 4 a graph differs from its reference; 130 interrupted.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from mulo_engines.bundle import Bundle
from mulo_engines.command import CommandGroup
from mulo_engines.errors import CheckpointError, EngineUnavailable
from rich.console import Console

from mulo_export.command_options import (
    EAGLE_OPTION,
    FILE,
    backend_option,
    export_options,
    pair_options,
    plan_options,
    shared_options,
)
from mulo_export.family_defaults import PUBLISHED, REFERENCE
from mulo_export.inspect_checkpoint import inspect_checkpoint
from mulo_export.options import CompileOptions, FamilyDefaults
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.report import build_progress, progress_bar, show_engines, show_inspection, show_parity, show_sizes
from mulo_export.sources import (
    Sources,
    read_reference_sources,
    read_source_eagle,
    read_source_ta_tok,
    read_source_tokenizer,
    read_source_transformer,
    read_source_upsampler,
    read_sources,
)

__all__ = ["main"]


@click.group(cls=CommandGroup, help=__doc__)
def main() -> None:
    """Nothing is shared by the subcommands."""


@main.command()
@click.option(
    "--ratio", type=click.Choice(["2", "4"]), default="2", show_default=True, help="Target grid / drafter grid."
)
@click.option("--weights", type=FILE, help="Directory of the family's weights  [default: the ones that mulo ships]")
@shared_options
def reference(ratio: str, weights: Path | None, **settings: Any) -> None:
    """Export the small trained family that mulo ships: 32 px drafter, 64 px (ratio 2) or 128 px (ratio 4) target."""
    folder = _shipped_weights() if weights is None else weights
    # Quantizing leaves no output projection that a head could share.
    headed = not PRECISIONS[Precision(settings["precision"])].quantized
    sources = read_reference_sources(folder, int(ratio), headed=headed, upsampler=settings["upsampler"])
    _export(sources, REFERENCE[int(ratio)], settings)


@main.command()
@pair_options
@click.option("--target-grid", type=click.IntRange(1), help="Tokens along a side, where the file does not tell.")
@click.option("--drafter-grid", type=click.IntRange(1), help="Likewise, of the drafter.")
@click.option("--prompt-table", type=FILE, help="Word tables, for a model that reads a short list of words.")
@EAGLE_OPTION
@shared_options
def llamagen(
    target: Path,
    drafter: Path,
    vq: Path,
    vq_ema: bool,
    target_grid: int | None,
    drafter_grid: int | None,
    target_heads: int | None,
    drafter_heads: int | None,
    prompt_table: Path | None,
    eagle: Path | None,
    **settings: Any,
) -> None:
    """Export a pair of LlamaGen checkpoints, class- or text-conditional, and their VQ tokenizer."""
    tokenizer = read_source_tokenizer(vq, ema=vq_ema)
    pixels = tokenizer.config.pixels_per_token
    low = read_source_transformer(drafter, grid=drafter_grid, heads=drafter_heads, pixels_per_token=pixels)
    high = read_source_transformer(target, grid=target_grid, heads=target_heads, pixels_per_token=pixels)
    head, learned = read_source_eagle(eagle, high), read_source_upsampler(settings["upsampler"])
    sources = read_sources(low, high, tokenizer, prompt_table, eagle=head, upsampler=learned)
    _export(sources, PUBLISHED[high.config.family], settings)


@main.command()
@pair_options
@click.option("--ta-tok", type=FILE, required=True, help="Checkpoint of the TA-Tok, which makes features of codes.")
@click.option("--codes", type=click.Choice(["729", "169", "81"]), help="TA-Tok codes of an image  [default: 729]")
@shared_options
def tar(
    target: Path,
    drafter: Path,
    vq: Path,
    vq_ema: bool,
    target_heads: int | None,
    drafter_heads: int | None,
    ta_tok: Path,
    codes: str | None,
    **settings: Any,
) -> None:
    """Export a pair of Tar's AR-DTok checkpoints, their TA-Tok and their VQ tokenizer."""
    tokenizer = read_source_tokenizer(vq, ema=vq_ema)
    pixels, prefix = tokenizer.config.pixels_per_token, None if codes is None else int(codes)
    low = read_source_transformer(drafter, heads=drafter_heads, prefix=prefix, pixels_per_token=pixels)
    high = read_source_transformer(target, heads=target_heads, prefix=prefix, pixels_per_token=pixels)
    learned = read_source_upsampler(settings["upsampler"])
    sources = read_sources(low, high, tokenizer, ta_tok=read_source_ta_tok(ta_tok), upsampler=learned)
    _export(sources, PUBLISHED[high.config.family], settings)


@main.command("inspect")
@click.argument("checkpoint", metavar="FILE", type=FILE)
@click.option("--grid", type=click.IntRange(1), help="Tokens along a side, where the file does not tell.")
@click.option("--heads", type=click.IntRange(1), help="Attention heads, for a size never published.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def inspect_command(checkpoint: Path, grid: int | None, heads: int | None, as_json: bool) -> None:
    """Show what the checkpoint FILE is, what it pairs with and what it needs, without loading it."""
    inspection = inspect_checkpoint(checkpoint, grid=grid, heads=heads)
    if as_json:
        click.echo(json.dumps(asdict(inspection), indent=2))
    else:
        show_inspection(Console(markup=False, highlight=False), checkpoint.name, inspection)


@main.command()
@click.argument("bundle", type=FILE)
@backend_option
@plan_options
def build(bundle: Path, backends: Sequence[str], **settings: Any) -> None:
    """Compile every graph of the bundle in the folder BUNDLE for this machine, and put the engines beside them."""
    _build(Bundle.open(bundle), backends, CompileOptions(**settings))


def _export(sources: Sources, defaults: FamilyDefaults, settings: Mapping[str, Any]) -> None:
    options = export_options(settings, defaults, sources.vq.config.vocabulary)
    console = Console(stderr=True)
    if settings["dry_run"]:
        show_sizes(console, sources, options)
        return
    with _libraries():
        from mulo_export.bundle_writer import write_bundle
    with progress_bar(console, sources, options.precision) as progress:
        manifest = write_bundle(sources, options, settings["out"], progress)
    show_parity(console, manifest)
    click.echo(settings["out"])
    _build(Bundle.open(settings["out"], verify="size"), settings["backends"], CompileOptions())


def _build(bundle: Bundle, backends: Sequence[str], options: CompileOptions) -> None:
    with _libraries():
        from mulo_export.compilation import check_onnxruntime, compile_bundle
    console = Console(stderr=True)
    for backend in backends:
        if backend == "onnxruntime":
            check_onnxruntime(bundle)
            continue
        with build_progress(console) as reporter:
            compilation = compile_bundle(bundle, backend, options, reporter)
        show_engines(console, compilation.record, compilation.warnings)
        click.echo(compilation.folder)


@contextmanager
def _libraries() -> Iterator[None]:
    """Imports of what takes libraries and a second, which `--help` and `--dry-run` do without."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            f"exporting needs {error.name!r}, which is not installed", fix="pip install 'mulo[export,cpu]'"
        ) from error


def _shipped_weights() -> Path:
    """The weights inside the package `mulo_tools`, which is found and not imported."""
    package = importlib.util.find_spec("mulo_tools")
    places = [] if package is None else package.submodule_search_locations or []
    for place in places:
        if (folder := Path(place) / "reference" / "weights").is_dir():
            return folder
    raise CheckpointError(
        "the weights of the reference family are not installed",
        expected="the package mulo_tools with its reference/weights",
        fix="install mulo whole, or give --weights",
    )
