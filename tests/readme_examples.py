"""Prints the examples of a Markdown file as one shell script, so that they can be run.

Fenced blocks marked `bash` are taken as they are and those marked `python` are fed to the interpreter; all others, such
as output, or `sh` for what takes hours or another machine, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import click

__all__ = ["readme_script"]

_BLOCK = re.compile(r"^```(?P<language>bash|python)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_END = "END_OF_EXAMPLE"


def readme_script(markdown: str, without: Iterable[str] = ()) -> str:
    """The shell script of the examples in `markdown`; lines equal to one of `without` are left out."""
    left_out = set(without)
    blocks = [_script(block["language"], block["code"]) for block in _BLOCK.finditer(markdown)]
    lines = "".join(blocks).splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() not in left_out)


def _script(language: str, code: str) -> str:
    return code if language == "bash" else f"python - <<'{_END}'\n{code}{_END}\n"


@click.command(help=__doc__)
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--without", multiple=True, help="A line that is left out.")
def main(file: Path, without: tuple[str, ...]) -> None:
    """Print the script."""
    click.echo(readme_script(file.read_text(encoding="utf-8"), without), nl=False)


if __name__ == "__main__":
    main()
