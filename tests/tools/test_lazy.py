"""Commands are imported when they are called and not before; what they need and lack is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result
from mulo_tools.cli import main
from mulo_tools.lazy import LazyCommand, LazyGroup

RunMulo = Callable[..., Result]


def group(module: str, attribute: str = "command") -> LazyGroup:
    return LazyGroup({"work": LazyCommand(module, attribute, "Do the work.", "torch,bench")}, name="main")


def test_the_help_lists_every_command_with_its_summary() -> None:
    help_text = CliRunner().invoke(main, ["--help"]).stdout
    for name in (
        "generate",
        "inspect",
        "bench",
        "bench-step",
        "bench-torch",
        "profile",
        "verify",
        "gpu-check",
        "soak",
        "demo",
        "train",
    ):
        assert f"\n  {name} " in help_text
    assert "Make one image." in help_text


def test_the_help_imports_neither_engines_nor_training() -> None:
    script = (
        "import sys; from mulo_tools.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted({'onnxruntime', 'torch', 'onnx', 'scipy', 'PIL', 'mulo_runtime'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.endswith("[]\n")


def test_a_missing_library_is_told_with_the_extra_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.delitem(sys.modules, "mulo_tools.reference.judge", raising=False)
    result = CliRunner().invoke(group("mulo_tools.reference.judge"), ["work"])
    assert result.exit_code == 1
    assert "needs 'scipy'" in result.stderr
    assert "pip install 'mulo[torch,bench]'" in result.stderr


def test_a_missing_module_of_mulo_itself_is_a_defect_and_not_hidden() -> None:
    result = CliRunner().invoke(group("mulo_tools.no_such_module"), ["work"])
    assert isinstance(result.exception, ModuleNotFoundError)


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["draw"])
    assert result.exit_code == 2
    assert "No such command 'draw'" in result.stderr


@pytest.mark.parametrize("name", ["generate", "inspect", "demo", "profile", "verify", "gpu-check", "train"])
def test_every_command_explains_itself(mulo: RunMulo, name: str) -> None:
    result = mulo(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: mulo {name}")
