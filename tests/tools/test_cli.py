"""The command `mulo` as a whole."""

from __future__ import annotations

from click.testing import CliRunner
from mulo_tools.cli import main


def test_an_option_may_be_set_by_the_environment() -> None:
    result = CliRunner().invoke(main, ["soak", "bundle"], env={"MULO_SOAK_IMAGES": "3"})
    assert result.exit_code == 2
    assert "3 is not in the range x>=20" in result.output
