"""`tools/gpu_check.sh`: the dry run on a CPU, and the wheels that lie beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

SCRIPT = Path(__file__).parents[3] / "tools/gpu_check.sh"


def run(script: Path, *options: object) -> subprocess.CompletedProcess[str]:
    command = [str(script), *map(str, options)]
    environment: Mapping[str, str] = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)


def test_the_shipped_family_is_checked_on_the_cpu(tmp_path: Path) -> None:
    options = ("--backend", "onnxruntime", "--subject", "reference-64px", "--threads", 1, "--matrix", 64)
    result = run(SCRIPT, *options, "--folder", tmp_path, "--json", tmp_path / "found.json")
    assert result.returncode == 0, result.stderr
    assert "reference-64px" in result.stdout
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found["agrees"]
    assert found["plain_seconds"] > 0


def test_wheels_beside_the_script_are_installed_without_a_network(tmp_path: Path) -> None:
    """The wheel that is carried here is a package of mulo's name that says how it was called."""
    script = tmp_path / "tools" / SCRIPT.name
    wheels = script.parent / "wheels"
    wheels.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    write_wheel(wheels / "mulo-9-py3-none-any.whl", "import sys; print('carried', *sys.argv[1:])")
    result = run(script, "--budget", 7)
    assert (result.returncode, result.stdout) == (0, "carried gpu-check --budget 7\n"), result.stderr
    assert (tmp_path / "build/gpu-check/environment").is_dir()


def write_wheel(path: Path, main: str) -> None:
    """A wheel of `mulo_tools` that consists of what `python -m mulo_tools` runs."""
    records = {
        "mulo_tools/__main__.py": main,
        "mulo-9.dist-info/METADATA": "Metadata-Version: 2.1\nName: mulo\nVersion: 9\n",
        "mulo-9.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with ZipFile(path, "w") as wheel:
        for name, content in records.items():
            wheel.writestr(name, content)
        wheel.writestr("mulo-9.dist-info/RECORD", "".join(f"{name},,\n" for name in records))
