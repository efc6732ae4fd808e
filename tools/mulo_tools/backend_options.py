"""Options that say what runs the graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from mulo_engines.backends import BACKEND_NAMES

__all__ = ["backend_options", "chosen_backend"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--backend", type=click.Choice(BACKEND_NAMES), default=BACKEND_NAMES[0], show_default=True),
    click.option("--device", type=click.IntRange(0), default=0, show_default=True, help="Number of the GPU."),
    click.option(
        "--engines",
        type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
        help="Folder of the engines that `mulo-export build` made.  [default: in the bundle]",
    ),
    click.option("--threads", type=click.IntRange(0), default=0, show_default=True, help="0 takes every core."),
)


def backend_options(command: _Command) -> _Command:
    """Add the options to `command`, which passes its keyword arguments on to `chosen_backend`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_backend(flags: dict[str, Any]) -> dict[str, Any]:
    """The options among `flags`, which are taken out of them, as `Pipeline.open` wants them."""
    names = {"backend": "backend", "device": "device", "engines": "compiled", "threads": "threads"}
    return {argument: flags.pop(option) for option, argument in names.items()}
