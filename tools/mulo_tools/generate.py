"""`mulo generate`: one image from a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from mulo_engines.manifest import MANIFEST_NAME, read_manifest
from mulo_runtime import Done, DraftPreview, MuloSD, Pipeline, Request, Result, RowsPreview, VerifiedPreview

from mulo_tools.backend_options import backend_options, chosen_backend
from mulo_tools.condition_options import chosen_condition, condition_options
from mulo_tools.method_options import chosen_method, chosen_sampling, method_options, sampling_options
from mulo_tools.output import write_png
from mulo_tools.overlay import accept_overlay
from mulo_tools.progress import ImageProgress
from mulo_tools.record import describe_image, describe_statistics, png_text

__all__ = ["generate_command"]

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_PREVIEW_NAMES = {DraftPreview: "draft", VerifiedPreview: "verified", RowsPreview: "rows"}


@click.command("generate")
@click.argument("bundle", type=_FOLDER)
@condition_options
@click.option("--seed", type=int, help="0 to 2**64 - 1; drawn and told where it is not given.")
@click.option("--out", type=_FILE, default="image.png", show_default=True, help="PNG file; holds all settings as text.")
@click.option("--overlay", type=_FILE, help="PNG file of the accept map over the image, with its islands.")
@click.option("--preview-dir", type=_FOLDER, help="Folder for a PNG file of every intermediate image.")
@click.option("--json", "as_json", is_flag=True, help="Print settings and statistics as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing else.")
@backend_options
@click.option("--deadline", type=click.FloatRange(0, min_open=True), help="Give up after this many seconds.")
@sampling_options
@method_options
def generate_command(
    bundle: Path,
    prompt: str | None,
    class_id: int | None,
    condition: Path | None,
    seed: int | None,
    out: Path,
    overlay: Path | None,
    preview_dir: Path | None,
    as_json: bool,
    quiet: bool,
    deadline: float | None,
    method: str,
    **flags: Any,
) -> None:
    """Make one image from the bundle in the folder BUNDLE.

    What is not given is as the bundle's defaults have it; see `mulo inspect`.
    """
    manifest, backend = read_manifest(bundle / MANIFEST_NAME), chosen_backend(flags)
    decoding = chosen_method(manifest, method, flags)
    if overlay and not isinstance(decoding, MuloSD):
        raise click.UsageError(f"--overlay needs --method mulo-sd; {method} has no accept map")
    shown = chosen_condition(prompt, class_id, condition)
    request = Request(shown, seed, decoding, chosen_sampling(manifest, flags), deadline)
    with Pipeline.open(bundle, methods=[decoding], **backend) as pipeline:
        with ImageProgress(manifest.target.rows, quiet=quiet) as progress:
            result = _generate(pipeline, request, progress, preview_dir)
        description = describe_image(pipeline.bundle, shown, result, backend["threads"])
    write_png(out, result.image, png_text(description))
    if overlay:
        write_png(overlay, accept_overlay(result.image, result.accept_map))
    if as_json:
        click.echo(json.dumps({"out": str(out), **description, "statistics": describe_statistics(result)}, indent=2))
    if not quiet:
        click.echo(_summary(out, result), err=True)


def _generate(pipeline: Pipeline, request: Request, progress: ImageProgress, preview_dir: Path | None) -> Result:
    if preview_dir is None:
        return pipeline.generate(request, on_event=progress.show)
    for event in pipeline.stream(request):
        if isinstance(event, Done):
            return event.result
        progress.show(event)
        write_png(preview_dir / f"{_PREVIEW_NAMES[type(event)]}-{event.rows:04}.png", event.image)
    raise AssertionError("a stream ends with Done")


def _summary(out: Path, result: Result) -> str:
    height, width, _ = result.image.shape
    share = result.statistics.accepted_share
    accepted = "" if share is None else f", {share:.0%} of the candidates accepted"
    return f"{out}: {width} x {height}, seed {result.seed}, {result.statistics.seconds:.2f} s{accepted}"
