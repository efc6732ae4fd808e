"""The part of `mulo generate` that makes images of many prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from mulo_engines.bundle import Bundle
from mulo_engines.errors import MuloError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mulo_tools.offline.folder import missing_items, writing
from mulo_tools.offline.items import Item, read_items
from mulo_tools.offline.painter import Painter, PainterSettings
from mulo_tools.output import write_bytes

__all__ = ["PromptSet", "chosen_set", "paint_set", "set_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--prompts",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with a prompt on every line (or a class, or the path of a file for --condition, as the bundle takes "
        "them): make the images of all of them into the folder --out. The same command goes on where it was cut short.",
    ),
    click.option(
        "--images", type=click.IntRange(1), default=1, show_default=True,
        help="With --prompts: images of every prompt; image j, from 0, has the seed --seed + j.",
    ),
    click.option("--ray", is_flag=True, help="With --prompts: make them on a Ray cluster, or on one of this machine."),
    click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="With --ray: processes."),
    click.option(
        "--gpus", type=click.FloatRange(0), default=0, show_default=True,
        help="With --ray: GPUs of a worker, which then is device 0; a fraction shares one.",
    ),
)  # fmt: skip

_SINGLE = {
    "prompt": "--prompt",
    "class_id": "--class-id",
    "condition": "--condition",
    "overlay": "--overlay",
    "preview_dir": "--preview-dir",
    "as_json": "--json",
    "deadline": "--deadline",
}
"""Options of a single image, by the names of their arguments."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Which images are wanted, and of whom.

    Attributes:
        prompts: the file of prompts.
        images: how many images of every prompt.
        workers: Ray's workers and the GPUs of each; None makes the images in this process.
    """

    prompts: Path
    images: int
    workers: tuple[int, float] | None


def set_options(command: _Command) -> _Command:
    """Add the options to `command`, which passes its keyword arguments on to `chosen_set`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_set(flags: dict[str, Any]) -> PromptSet | None:
    """The set that the options among `flags`, which are taken out of them, ask for; None where they ask for one image.

    Raises:
        click.UsageError: the options contradict each other.
    """
    prompts, images, on_ray, workers, gpus = (
        flags.pop(name) for name in ("prompts", "images", "ray", "workers", "gpus")
    )
    if prompts is None:
        if on_ray or images > 1:
            raise click.UsageError("--ray and --images need --prompts")
        return None
    single = [option for name, option in _SINGLE.items() if flags[name] is not None and flags[name] is not False]
    if single:
        raise click.UsageError(f"--prompts does not go with {', '.join(single)}")
    if not on_ray and (workers > 1 or gpus):
        raise click.UsageError("--workers and --gpus need --ray")
    return PromptSet(prompts, images, (workers, gpus) if on_ray else None)


def paint_set(wanted: PromptSet, settings: PainterSettings, seed: int, folder: Path, *, quiet: bool) -> None:
    """Make what `folder` has not got yet of the images of `wanted`.

    Raises:
        RequestError: a prompt is refused, or `folder` holds other images; nothing was made then.
        MuloError: an image could not be made; those that were made stay.
    """
    bundle = Bundle.open(settings.bundle)
    items = read_items(wanted.prompts, bundle, wanted.images, seed)
    with writing(folder), _progress(quiet) as progress:
        missing = missing_items(folder, items, bundle, settings)
        task = progress.add_task("images", total=len(items), completed=len(items) - len(missing))
        for item, png in _paint(missing, settings, wanted.workers) if missing else ():
            write_bytes(folder / item.name, png)
            progress.advance(task)
    if not quiet:
        click.echo(f"{folder}: {len(missing)} images made, {len(items) - len(missing)} were there", err=True)


def _paint(
    items: Sequence[Item], settings: PainterSettings, workers: tuple[int, float] | None
) -> Iterator[tuple[Item, bytes]]:
    if workers is not None:
        return _paint_with_ray(items, settings, *workers)
    return _paint_here(items, settings)


def _paint_here(items: Sequence[Item], settings: PainterSettings) -> Iterator[tuple[Item, bytes]]:
    with Painter(settings) as painter:
        for item in items:
            yield item, painter.paint(item)


def _paint_with_ray(
    items: Sequence[Item], settings: PainterSettings, workers: int, gpus: float
) -> Iterator[tuple[Item, bytes]]:
    try:
        from mulo_tools.offline.ray_data import paint_with_ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise MuloError("--ray needs 'ray', which is not installed", fix="pip install 'mulo[ray]'") from error
    return paint_with_ray(items, settings, workers, gpus)


def _progress(quiet: bool) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
