"""The builder's timings survive a build, and never stop one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock
from mulo_engines.tensorrt import timing_cache
from mulo_engines.tensorrt.timing_cache import load_timings, save_timings


@dataclass(frozen=True)
class Timings:
    """A stand-in for the library's cache, which only TensorRT on a GPU has."""

    content: bytes

    def serialize(self) -> bytes:
        return self.content


@dataclass
class Config:
    """The part of the builder's configuration that caches touch; accepts what begins like its own."""

    current: Timings = field(default_factory=lambda: Timings(b""))

    def create_timing_cache(self, content: bytes) -> Timings:
        return Timings(content)

    def set_timing_cache(self, cache: Timings, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if cache.content and not cache.content.startswith(b"timings"):
            return False
        self.current = cache
        return True

    def get_timing_cache(self) -> Timings:
        return self.current


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engines" / "tensorrt-11-h200.timings"


def test_what_a_build_saves_the_next_one_loads(path: Path) -> None:
    assert load_timings(Config(), path) is None
    assert save_timings(Config(Timings(b"timings of a build")), path) is None
    later = Config()
    assert load_timings(later, path) is None
    assert later.current.content == b"timings of a build"
    assert [entry.name for entry in path.parent.iterdir() if entry.suffix == ".partial"] == []


def test_timings_of_another_builder_are_passed_over_with_a_warning(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"garbage")
    config = Config(Timings(b"timings before"))
    warning = load_timings(config, path)
    assert warning is not None
    assert str(path) in warning
    assert config.current.content == b""


def test_a_file_that_cannot_be_read_or_written_is_passed_over_with_a_warning(path: Path) -> None:
    path.mkdir(parents=True)
    config = Config(Timings(b"timings"))
    for warning in (load_timings(config, path), save_timings(config, path)):
        assert warning is not None
        assert "directory" in warning


def test_two_builds_do_not_touch_the_file_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_cache, "_WAIT", 0.01)
    path.parent.mkdir()
    with FileLock(path.with_name(f".{path.name}.lock")):
        warning = save_timings(Config(Timings(b"timings")), path)
    assert warning is not None
    assert "lock" in warning
    assert not path.exists()
