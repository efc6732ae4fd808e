"""Groups of commands whose modules are imported only when they are called: `mulo --help` loads no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from mulo_engines.command import CommandGroup
from mulo_engines.errors import MuloError

__all__ = ["LazyCommand", "LazyGroup"]


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, and what is known of it before it is imported.

    Attributes:
        module: module that defines it.
        attribute: its name there.
        summary: one line for the group's help.
        extra: the extras of the distribution that bring the libraries it imports.
    """

    module: str
    attribute: str
    summary: str
    extra: str = "cpu"

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            MuloError: a library that it needs is not installed.
        """
        try:
            command = getattr(import_module(self.module), self.attribute)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("mulo_"):
                raise
            raise MuloError(
                f"this command needs {error.name!r}, which is not installed", fix=f"pip install 'mulo[{self.extra}]'"
            ) from error
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module}.{self.attribute} is not a command")
        return command


class LazyGroup(CommandGroup):
    """A group that knows its commands by name and imports the one that is called.

    Args:
        lazy: the commands by name.
        settings: those of `click.Group`.
    """

    def __init__(self, lazy: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(**settings)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they were given."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called `cmd_name`; None where there is none."""
        return self._lazy[cmd_name].load() if cmd_name in self._lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self._lazy.items()])
