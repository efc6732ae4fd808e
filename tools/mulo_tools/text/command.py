"""`mulo encode-text`: the condition that a published model reads, made of a prompt, as a file for `--condition`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from mulo_tools.output import replacing
from mulo_tools.text.flan_t5 import LENGTH, encode_features
from mulo_tools.text.hub_models import ChatModel, Drawing, TextEncoder
from mulo_tools.text.tar_codes import SCALES, draw_codes

__all__ = ["encode_text_group"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PUBLISHED = Drawing()


@click.group("encode-text")
def encode_text_group() -> None:
    """Make the condition of published models from a prompt: a file that `mulo generate --condition` takes.

    Models come from a folder, or from a repository of the hub, by its name; no code of theirs is run.
    """


def _shared_options(command: _Command) -> _Command:
    options = (
        click.option("--model", required=True, metavar="FOLDER|NAME", help="The text model and its tokenizer."),
        click.option("--prompt", required=True, help="What the image shows."),
        click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The npz file."),
        click.option(
            "--dtype",
            type=click.Choice(["bfloat16", "float32"]),
            default="bfloat16",
            show_default=True,
            help="Type to compute in; published models were trained after bfloat16.",
        ),
        click.option("--device", default="cpu", show_default=True, help="Such as cuda."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@encode_text_group.command("llamagen")
@_shared_options
@click.option("--length", type=click.IntRange(1), default=LENGTH, show_default=True, help="Positions of the prefix.")
def llamagen_command(model: str, prompt: str, out: Path, dtype: str, device: str, length: int) -> None:
    """Encode a prompt by flan-t5-xl, as LlamaGen's text-conditional models read it."""
    encoder = TextEncoder(model, dtype=dtype, device=device)
    (condition,) = encode_features(encoder, [prompt], length)
    _write(out, features=condition.features, mask=condition.mask)


@encode_text_group.command("tar")
@_shared_options
@click.option(
    "--codes",
    type=click.Choice([str(count) for count in SCALES]),
    default="729",
    show_default=True,
    help="Codes of the image, as many as the bundle was exported for.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws.")
@click.option(
    "--temperature", type=click.FloatRange(0, min_open=True), default=_PUBLISHED.temperature, show_default=True
)
@click.option("--top-k", type=click.IntRange(1), default=_PUBLISHED.top_k, show_default=True)
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), default=_PUBLISHED.top_p, show_default=True)
@click.option("--only-codes", is_flag=True, help="Draw nothing but codes, so that none can be missing.")
def tar_command(
    model: str,
    prompt: str,
    out: Path,
    dtype: str,
    device: str,
    codes: str,
    seed: int,
    temperature: float,
    top_k: int,
    top_p: float,
    only_codes: bool,
) -> None:
    """Draw the TA-Tok codes of an image of a prompt by Tar's language model."""
    chat = ChatModel(model, dtype=dtype, device=device)
    drawing = Drawing(temperature, top_p, top_k)
    drawn = draw_codes(chat, prompt, int(codes), seed=seed, drawing=drawing, only_codes=only_codes)
    _write(out, codes=drawn.codes)


def _write(out: Path, **arrays: NDArray[Any]) -> None:
    with replacing(out) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    click.echo(out)
