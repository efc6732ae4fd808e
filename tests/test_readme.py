"""The README's examples can be taken out and run; continuous integration does."""

from __future__ import annotations

import re
import shlex
import subprocess
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from readme_examples import readme_script

README = Path(__file__).parent.parent / "README.md"
EXAMPLE = """
# Title
```bash
make demo
make test
```
prose
```text
output
```
```python
print("it's", 6 * 7)
```
```sh
sleep 36000
```
"""


def test_shell_and_python_blocks_become_one_script_and_the_others_are_left_out() -> None:
    script = readme_script(EXAMPLE)
    assert script.startswith("make demo\nmake test\npython - <<")
    assert "output" not in script
    assert "sleep" not in script


def test_a_python_block_runs_as_it_is_written() -> None:
    script = readme_script(EXAMPLE, without=["make demo", "make test"])
    result = subprocess.run(["bash", "-euo", "pipefail"], input=script, capture_output=True, text=True, check=True)
    assert result.stdout == "it's 42\n"


def command_lines() -> list[list[str]]:
    """Every command of mulo in the README, in any block, as words."""
    text = README.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [
        line for block in re.findall(r"^```(?:bash|sh)\n(.*?)^```$", text, re.M | re.S) for line in block.split("\n")
    ]
    return [shlex.split(line.removesuffix("&"), comments=True) for line in lines if line.startswith("mulo")]


@pytest.mark.parametrize("words", command_lines(), ids=" ".join)
def test_every_command_of_the_readme_is_understood(words: list[str]) -> None:
    (script,) = entry_points(group="console_scripts", name=words[0])
    command, context, rest = script.load(), click.Context(click.Command("readme")), words[1:]
    while isinstance(command, click.Group):
        name, resolved, rest = command.resolve_command(context, rest)
        assert resolved is not None, name
        command = resolved
    command.make_context(command.name, list(rest), resilient_parsing=False).close()


def test_the_readme_has_examples_of_every_kind() -> None:
    assert {words[0] for words in command_lines()} == {"mulo", "mulo-export"}
    assert "python - <<" in readme_script(README.read_text(encoding="utf-8"))


def test_files_that_the_readme_links_to_exist() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
