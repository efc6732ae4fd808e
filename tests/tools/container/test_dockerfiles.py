"""The Dockerfiles, which are built elsewhere: a linter's rules, and those that we promise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mulo_tools.serve import serve_command

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tools" / "container"
FILES = sorted(FOLDER.glob("*.Dockerfile"))
HADOLINT = Path(sys.executable).with_name("hadolint")


def instructions(file: Path) -> list[tuple[str, str]]:
    """Instructions and their arguments, in order."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in whole if line)]


def argument(file: Path, name: str) -> str:
    """The argument of the last instruction called `name`."""
    return [rest for instruction, rest in instructions(file) if instruction == name][-1]


def lint(text: str) -> subprocess.CompletedProcess[str]:
    words = [HADOLINT, "--no-color", "--failure-threshold", "style", "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False)


def test_there_is_one_for_the_cpu_and_one_for_tensorrt() -> None:
    assert [file.name for file in FILES] == ["cpu.Dockerfile", "tensorrt.Dockerfile"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
class TestDockerfile:
    def test_the_linter_finds_nothing(self, file: Path) -> None:
        result = lint(file.read_text())
        assert (result.returncode, result.stdout) == (0, "")

    def test_every_base_is_pinned_to_a_digest(self, file: Path) -> None:
        bases = [rest for name, rest in instructions(file) if name == "FROM"]
        assert bases
        assert [base for base in bases if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}( AS \w+)?$", base)] == []

    def test_what_is_installed_is_what_is_tested(self, file: Path) -> None:
        (installs,) = [rest for name, rest in instructions(file) if name == "RUN"]
        assert "pip install --no-cache-dir --constraint constraints.txt" in installs

    def test_it_runs_as_a_user_without_rights_who_owns_nothing(self, file: Path) -> None:
        assert argument(file, "USER") == "65532:65532"
        assert not any("--chown" in rest for _, rest in instructions(file))
        assert not any(name == "VOLUME" for name, _ in instructions(file))

    def test_bundle_and_file_system_are_mounted_read_only(self, file: Path) -> None:
        (run,) = re.findall(r"docker run[^\n]*--read-only(?:.*\\\n)*.*", file.read_text())
        assert ":/bundle:ro" in run

    def test_health_is_that_of_the_service(self, file: Path) -> None:
        check = argument(file, "HEALTHCHECK")
        script = json.loads(check[check.index("[") :])
        assert script[:2] == ["python", "-c"]
        compile(script[2], "HEALTHCHECK", "exec")
        assert f"http://127.0.0.1:{argument(file, 'EXPOSE')}/livez" in script[2]

    def test_the_service_is_the_first_process_so_that_sigterm_drains_it(self, file: Path) -> None:
        words = json.loads(argument(file, "ENTRYPOINT"))
        assert words[:3] == ["mulo", "serve", "/bundle"]
        with serve_command.make_context("serve", words[2:]) as context:
            assert context.params["host"] == "0.0.0.0"
            assert context.params["port"] == int(argument(file, "EXPOSE"))

    def test_only_what_the_wheel_is_built_from_is_sent_to_the_builder(self, file: Path) -> None:
        lines = file.with_name(f"{file.name}.dockerignore").read_text().splitlines()
        assert lines[0] == "*"
        admitted = [line.removeprefix("!") for line in lines if line.startswith("!")]
        assert [name for name in admitted if not (ROOT / name).exists()] == []
        assert {"pyproject.toml", "constraints.txt", "LICENSE", "README.md"} < set(admitted)


def test_a_base_that_is_not_pinned_would_be_found() -> None:
    result = lint("FROM python:latest\nRUN pip install mulo\n")
    assert result.returncode != 0
    assert {"DL3007", "DL3013"} <= set(re.findall(r"DL\d+", result.stdout))
