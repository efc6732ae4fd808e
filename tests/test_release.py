"""What `make release` makes: a wheel that installs into an empty environment, and the bill of what it brings along."""

from __future__ import annotations

import json
import subprocess
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parent.parent
PACKAGES = {"mulo_engines": "engines", "mulo_export": "export", "mulo_runtime": "runtime", "mulo_tools": "tools"}


@dataclass(frozen=True, slots=True)
class Release:
    """A release: its wheel, its SBOM, and the environment that the wheel was installed into."""

    wheel: Path
    sbom: Path
    environment: Path

    def run(self, command: str, *arguments: str) -> str:
        """What a command of the environment prints."""
        words = [self.environment / "bin" / command, *arguments]
        return subprocess.run(words, cwd=self.environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("release")
    variables = [f"DIST={folder / 'dist'}", f"RELEASE={folder / 'environment'}"]
    subprocess.run(["make", "--silent", "--directory", ROOT, "release", *variables], check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return Release(wheel, folder / "dist" / "mulo.cdx.json", folder / "environment")


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    roots = tuple(f"{folder}/{package}/" for package, folder in PACKAGES.items())
    expected = {file.split("/", 1)[1] for file in tracked if file.startswith(roots)}
    assert found == expected


def test_the_wheel_carries_its_licence(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        names = {name.split("/", 1)[1]: name for name in wheel.namelist() if ".dist-info/" in name}
        metadata = message_from_bytes(wheel.read(names["METADATA"]))
        licence = wheel.read(names["licenses/LICENSE"])
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_installed_commands_work_without_the_repository(release: Release) -> None:
    assert release.run("mulo", "--version").startswith("mulo, version ")
    assert "generate" in release.run("mulo", "--help")
    assert "reference" in release.run("mulo-export", "--help")
    where = release.run("python", "-c", "import mulo_runtime.pipeline; print(mulo_runtime.__file__)")
    assert where.startswith(str(release.environment))


def test_the_bill_lists_what_is_installed_each_with_version_and_licence(release: Release) -> None:
    bill: dict[str, Any] = json.loads(release.sbom.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "mulo")
    installed = json.loads(
        release.run("python", "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")
    )
    versions = {one["name"].lower().replace("_", "-"): one["version"] for one in installed}
    listed = {one["name"].lower().replace("_", "-"): one for one in bill["components"]}
    assert {name: one["version"] for name, one in listed.items()} == {
        name: version for name, version in versions.items() if name != "mulo"
    }
    assert [name for name, one in listed.items() if not one.get("licenses")] == []
