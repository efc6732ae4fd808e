"""`mulo bench-torch`: plain decoding by the engines beside the same target in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import click
import torch
from mulo_engines.bundle import Bundle
from mulo_runtime import AutoRegressive, Pipeline, Sampling

from mulo_tools.bench.cases import cases_of
from mulo_tools.bench.interleave import interleaved
from mulo_tools.bench.step_cost import plain_seconds
from mulo_tools.reference import sample
from mulo_tools.reference.vocabulary import scene_prompt_encoder
from mulo_tools.reference.weights_file import load_gpt

__all__ = ["torch_command"]


@click.command("bench-torch")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--images", default=10, show_default=True, type=click.IntRange(1), help="Images timed.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="Threads of both.")
def torch_command(bundle: Path, images: int, threads: int) -> None:
    """Compare plain decoding of BUNDLE, of the reference family, with its target in PyTorch.

    PyTorch runs the same weights eagerly, with a preallocated cache and its own scaled dot-product attention; both
    decode the same prompt with the same guidance, image by image in turn.
    """
    opened = Bundle.open(bundle)
    torch.set_num_threads(threads)
    with Pipeline.open(bundle, threads=threads, verify=False, methods=[AutoRegressive()]) as pipeline:
        pairs = interleaved(images, plain_seconds(pipeline), _torch_seconds(opened, pipeline.sampling))
    engines, eager = (1000 * median(seconds) for seconds in zip(*pairs, strict=True))
    click.echo(f"plain decoding  {engines:.1f} ms an image")
    click.echo(f"PyTorch         {eager:.1f} ms an image")
    click.echo(f"ratio           {median(theirs / ours for ours, theirs in pairs):.2f} (median of {images} pairs)")


def _torch_seconds(bundle: Bundle, sampling: Sampling) -> Callable[[], float]:
    """Decodes one and the same image a call; returns the seconds until its tokens were there."""
    model = load_gpt(bundle.file("weights/target.safetensors"))
    encoder = scene_prompt_encoder()
    (case,) = cases_of("tune", 1)
    drawn = sample.Sampling(sampling.temperature, sampling.guidance_scale, case.seed)

    def run() -> float:
        start = perf_counter()
        sample.sample_tokens(model, encoder, [case.scene.caption], drawn)
        return perf_counter() - start

    return run
