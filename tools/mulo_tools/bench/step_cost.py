"""`mulo bench-step`: what a step of plain decoding costs beyond the engines that it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import click
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_runtime import AutoRegressive, Pipeline

from mulo_tools.bench.bare_steps import BareSteps
from mulo_tools.bench.cases import cases_of
from mulo_tools.bench.interleave import interleaved

__all__ = ["plain_seconds", "step_command"]


@click.command("bench-step")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--images", default=10, show_default=True, type=click.IntRange(1), help="Images timed.")
@click.option("--threads", default=0, type=click.IntRange(0), help="Threads of an engine call; 0 is all cores.")
def step_command(bundle: Path, images: int, threads: int) -> None:
    """Compare a step of plain decoding with the bare runs of the engines that it consists of.

    Both use the same graphs, threads and cache lengths, image by image in turn. The step of plain decoding counts
    everything between request and last token: prompt encoding and prefill, too.
    """
    opened = Bundle.open(bundle)
    bare = BareSteps(opened, open_backend("onnxruntime", threads=threads))
    with Pipeline.open(bundle, threads=threads, verify=False, methods=[AutoRegressive()]) as pipeline:
        pairs = interleaved(images, plain_seconds(pipeline), bare.run)
    bare.close()
    plain, floor = (1000 * median(seconds) / bare.count for seconds in zip(*pairs, strict=True))
    click.echo(f"plain decoding  {plain:.3f} ms a step")
    click.echo(f"bare engines    {floor:.3f} ms a step")
    click.echo(f"ratio           {median(ours / theirs for ours, theirs in pairs):.3f} (median of {images} pairs)")


def plain_seconds(pipeline: Pipeline) -> Callable[[], float]:
    """Decodes one and the same image a call; returns the seconds until its tokens were there."""
    (case,) = cases_of("tune", 1)

    def run() -> float:
        statistics = pipeline.generate(case.request(AutoRegressive())).statistics
        return statistics.seconds - statistics.phases["decode"].seconds

    return run
