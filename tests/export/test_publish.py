from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from mulo_engines.errors import BundleError
from mulo_export.publish import publication

_KILLED = """
import os, signal, sys
from pathlib import Path
from mulo_export.publish import publication
with publication(Path(sys.argv[1]), force=True) as folder:
    (folder / "bundle.json").write_text("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""

_KILLED_BETWEEN_THE_RENAMES = """
import os, signal, sys
from pathlib import Path
from mulo_export.publish import publication
rename, done = Path.rename, []
def rename_once(path, target):
    if done:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(path)
    return rename(path, target)
Path.rename = rename_once
with publication(Path(sys.argv[1]), force=True) as folder:
    (folder / "bundle.json").write_text("new")
"""


def _publish(destination: Path, content: str, *, force: bool = False) -> None:
    with publication(destination, force=force) as folder:
        (folder / "weights").mkdir()
        (folder / "weights" / "vq.safetensors").write_text(content)
        (folder / "bundle.json").write_text(content)


def _leftovers(destination: Path) -> list[str]:
    return sorted(path.name for path in destination.parent.iterdir() if path.suffix in (".partial", ".replaced"))


def _run_until_killed(script: str, destination: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script, str(destination)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_what_the_block_wrote_is_published_under_the_destinations_name(tmp_path: Path) -> None:
    _publish(tmp_path / "deep" / "bundle", "new")
    assert (tmp_path / "deep" / "bundle" / "bundle.json").read_text() == "new"
    assert (tmp_path / "deep" / "bundle" / "weights" / "vq.safetensors").read_text() == "new"
    assert _leftovers(tmp_path / "deep" / "bundle") == []


def test_nothing_is_visible_before_the_block_ends(tmp_path: Path) -> None:
    with publication(tmp_path / "bundle") as folder:
        (folder / "bundle.json").write_text("new")
        assert not (tmp_path / "bundle").exists()


def test_an_error_in_the_block_publishes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), publication(tmp_path / "bundle") as folder:
        folder.write_text("a directory is no file")
    assert not (tmp_path / "bundle").exists()
    assert _leftovers(tmp_path / "bundle") == []


def test_a_bundle_that_is_there_is_refused_and_kept(tmp_path: Path) -> None:
    _publish(tmp_path / "bundle", "old")
    with pytest.raises(BundleError, match="--force"):
        _publish(tmp_path / "bundle", "new")
    assert (tmp_path / "bundle" / "bundle.json").read_text() == "old"


def test_force_replaces_the_whole_bundle(tmp_path: Path) -> None:
    _publish(tmp_path / "bundle", "old")
    (tmp_path / "bundle" / "stray").touch()
    _publish(tmp_path / "bundle", "new", force=True)
    assert (tmp_path / "bundle" / "bundle.json").read_text() == "new"
    assert not (tmp_path / "bundle" / "stray").exists()
    assert _leftovers(tmp_path / "bundle") == []


def test_an_error_while_replacing_keeps_the_old_bundle(tmp_path: Path) -> None:
    _publish(tmp_path / "bundle", "old")
    with pytest.raises(ZeroDivisionError), publication(tmp_path / "bundle", force=True):
        raise ZeroDivisionError
    assert (tmp_path / "bundle" / "bundle.json").read_text() == "old"


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_what_is_not_a_bundle_is_never_replaced(tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "home"
    if kind == "directory":
        precious.mkdir()
    else:
        precious.touch()
    with pytest.raises(BundleError, match="not a bundle"):
        _publish(precious, "new", force=True)
    assert precious.exists()


@pytest.mark.parametrize("before", [None, "old"])
def test_a_killed_process_leaves_the_old_bundle_or_none(tmp_path: Path, before: str | None) -> None:
    destination = tmp_path / "bundle"
    if before is not None:
        _publish(destination, before)
    _run_until_killed(_KILLED, destination)
    assert destination.exists() == (before is not None)
    if before is not None:
        assert (destination / "bundle.json").read_text() == before


def test_the_next_publication_clears_what_a_killed_process_left(tmp_path: Path) -> None:
    _run_until_killed(_KILLED, tmp_path / "bundle")
    assert _leftovers(tmp_path / "bundle") == [".bundle.partial"]
    _publish(tmp_path / "bundle", "new")
    assert _leftovers(tmp_path / "bundle") == []
    assert (tmp_path / "bundle" / "bundle.json").read_text() == "new"


def test_a_bundle_set_aside_by_a_process_killed_between_the_renames_is_put_back(tmp_path: Path) -> None:
    _publish(tmp_path / "bundle", "old")
    _run_until_killed(_KILLED_BETWEEN_THE_RENAMES, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
    with pytest.raises(BundleError, match="--force"):
        _publish(tmp_path / "bundle", "new")
    assert (tmp_path / "bundle" / "bundle.json").read_text() == "old"


def test_two_processes_cannot_write_one_bundle(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".bundle.lock"), pytest.raises(BundleError, match="another process"):
        _publish(tmp_path / "bundle", "new")
    assert not (tmp_path / "bundle").exists()
