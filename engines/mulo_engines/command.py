"""How every command of mulo ends: what went wrong on stderr, without a traceback, and an exit code of its kind.

0 done; 1 an engine, the system or an unforeseen error; 2 wrong usage or request; 3 a bundle or checkpoint is refused;
4 a graph differs from its reference, or a backend from another; 130 interrupted.
"""

from __future__ import annotations

from typing import Any

import click

from mulo_engines.errors import MuloError

__all__ = ["INTERRUPTED", "CommandGroup"]

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""


class CommandGroup(click.Group):
    """A group whose subcommands may raise what mulo and the system raise."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; leave with an exit code where it fails or is interrupted."""
        try:
            return super().invoke(ctx)
        except MuloError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            raise
        except OSError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(MuloError.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
