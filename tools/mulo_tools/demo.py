"""`mulo demo`: a contact sheet of how images come about, beside plain decoding with the same seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from mulo_engines.manifest import MANIFEST_NAME, read_manifest
from mulo_runtime import Accept, AutoRegressive, Done, DraftPreview, MuloSD, Pipeline, Prompt, Request, Result
from mulo_runtime.defaults import default_method
from numpy.typing import NDArray

from mulo_tools.output import write_png
from mulo_tools.overlay import COLOURS, accept_overlay
from mulo_tools.sheet import Panel, Row, Sheet, draw_sheet

__all__ = ["demo_command"]

_PROMPTS = (
    "a red circle left of a blue square on dark",
    "three green triangles on light",
    "a yellow cross above a purple circle on grey",
)
_COLUMNS = ("draft", "upsampled draft", "accept map", "MuLo-SD", "plain decoding, same seed")
_LEGEND = (
    ((96, 96, 96), "accepted: the upsampled draft, or a draw near it"),
    (COLOURS[Accept.REJECTED], "rejected by the target"),
    (COLOURS[Accept.NEIGHBOUR], "resampled beside a rejection; islands are outlined"),
)


@click.command("demo")
@click.argument("bundle", type=click.Path(file_okay=False, path_type=Path))
@click.option("--prompt", "prompts", multiple=True, default=_PROMPTS, help="One row of the sheet; may be repeated.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the first row; the next have the next.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default="demo.png", show_default=True, help="PNG file."
)
@click.option("--threads", type=click.IntRange(0), default=0, show_default=True, help="0 takes every core.")
def demo_command(bundle: Path, prompts: Sequence[str], seed: int, out: Path, threads: int) -> None:
    """Draw how the images of the bundle in the folder BUNDLE come about, one row per prompt."""
    method = default_method(read_manifest(bundle / MANIFEST_NAME)).with_changes(draft="image")
    with Pipeline.open(bundle, threads=threads, methods=[method]) as pipeline:
        pipeline.warm_up(AutoRegressive(), method)
        rows = [_row(pipeline, method, prompt, seed + index) for index, prompt in enumerate(prompts)]
        subtitle = _describe(pipeline, method)
    write_png(out, draw_sheet(Sheet("How MuLo-SD makes an image", subtitle, _COLUMNS, _LEGEND, rows)))
    click.echo(out)


def _row(pipeline: Pipeline, method: MuloSD, prompt: str, seed: int) -> Row:
    draft, result = _drafted(pipeline, Request(Prompt(prompt), seed, method))
    candidates = pipeline.generate(Request(Prompt(prompt), seed, method.with_changes(tau=0))).image
    plain = pipeline.generate(Request(Prompt(prompt), seed, AutoRegressive()))
    return Row(
        f"{prompt}  (seed {seed})",
        [
            Panel(draft, f"{result.statistics.drafted} tokens"),
            Panel(candidates, f"{result.statistics.verified} candidates"),
            Panel(
                accept_overlay(result.image, result.accept_map, 256), f"{result.statistics.accepted_share:.0%} accepted"
            ),
            Panel(result.image, _effort(result)),
            Panel(plain.image, _effort(plain)),
        ],
    )


def _drafted(pipeline: Pipeline, request: Request) -> tuple[NDArray[np.uint8], Result]:
    """The draft as pixels, and the finished image."""
    for event in pipeline.stream(request):
        if isinstance(event, DraftPreview):
            draft = event.image
        elif isinstance(event, Done):
            return draft, event.result
    raise AssertionError("a stream ends with Done")


def _describe(pipeline: Pipeline, method: MuloSD) -> str:
    low, high = pipeline.bundle.manifest.drafter, pipeline.bundle.manifest.target
    grids = f"{low.rows} x {low.cols} tokens drafted, {high.rows} x {high.cols} verified"
    expansion = "no neighbourhood" if method.radius is None else f"radius {method.radius}"
    return f"MuLo-SD, {grids}; tau {method.tau:g}, {method.pool_k} codes pooled, {expansion}"


def _effort(result: Result) -> str:
    return f"{result.statistics.seconds:.2f} s, {result.statistics.engines['target'].passes} target passes"
