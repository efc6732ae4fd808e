"""Runs the command `mulo` as a user does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from mulo_tools.cli import main

RunMulo = Callable[..., Result]


@pytest.fixture
def mulo() -> RunMulo:
    """`mulo("generate", path, "--seed", 1)`: the outcome of that command line; unforeseen errors are raised."""

    def run(*arguments: object) -> Result:
        return CliRunner(catch_exceptions=False).invoke(main, [str(argument) for argument in arguments])

    return run
