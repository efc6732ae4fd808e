"""Specifies how commands end: message, stream and exit code of every kind of failure."""

from __future__ import annotations

import errno

import click
import pytest
from click.testing import CliRunner, Result
from mulo_engines.command import CommandGroup
from mulo_engines.errors import BundleError, EngineError, MuloError, ParityError, RequestError


def run(failure: BaseException | None) -> Result:
    @click.group(cls=CommandGroup)
    def main() -> None: ...

    @main.command()
    def work() -> None:
        click.echo("begun")
        if failure is not None:
            raise failure

    return CliRunner().invoke(main, ["work"])


def test_a_command_that_succeeds_leaves_with_0() -> None:
    result = run(None)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "begun\n", "")


@pytest.mark.parametrize(("error", "code"), [(EngineError, 1), (RequestError, 2), (BundleError, 3), (ParityError, 4)])
def test_an_error_of_mulo_is_told_on_stderr_without_a_traceback(error: type[MuloError], code: int) -> None:
    result = run(error("it broke", found=3, expected=4, fix="mend it"))
    assert result.exit_code == code
    assert result.stdout == "begun\n"
    assert result.stderr == "error: it broke\n  found:    3\n  expected: 4\n  fix:      mend it\n"


def test_an_error_of_the_system_names_the_file() -> None:
    result = run(PermissionError(errno.EACCES, "Permission denied", "image.png"))
    assert (result.exit_code, result.stderr) == (1, "error: [Errno 13] Permission denied: 'image.png'\n")


def test_an_interrupt_leaves_with_130() -> None:
    result = run(KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_a_reader_that_is_gone_is_left_in_silence() -> None:
    result = run(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert (result.exit_code, result.stderr) == (1, "")


def test_an_unforeseen_error_keeps_its_traceback() -> None:
    result = run(ZeroDivisionError("a defect"))
    assert isinstance(result.exception, ZeroDivisionError)
    assert result.exit_code == 1


def test_wrong_usage_leaves_with_2() -> None:
    assert CliRunner().invoke(CommandGroup(), ["--no-such-option"]).exit_code == 2
