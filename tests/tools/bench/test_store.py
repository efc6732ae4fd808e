"""Scored images survive on disk whatever happens to the process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mulo_runtime import AutoRegressive, Method, MuloSD, ZipAR
from mulo_tools.bench.scoring import Scored
from mulo_tools.bench.store import ScoreStore

METHODS = [AutoRegressive(), ZipAR(4), MuloSD(tau=0.25, radius=None)]


def image(method: Method, seed: int = 7) -> Scored:
    return Scored(method, seed, True, tuple(seed / 8 for seed in range(64)))


def store(folder: Path, digest: str = "d" * 64) -> ScoreStore:
    return ScoreStore(folder, digest)


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    images = [image(method) for method in METHODS]
    for one in images:
        store(tmp_path).append([one])
    assert store(tmp_path).read() == images


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    assert store(tmp_path / "new").read() == []


def test_another_bundle_has_other_scores(tmp_path: Path) -> None:
    store(tmp_path).append([image(AutoRegressive())])
    assert store(tmp_path, "e" * 64).read() == []


@pytest.mark.parametrize("kept", [1, 40, 200])
def test_a_line_that_was_cut_off_is_dropped_and_the_next_one_is_whole(tmp_path: Path, kept: int) -> None:
    first, second = image(AutoRegressive(), 1), image(AutoRegressive(), 2)
    store(tmp_path).append([first])
    (path,) = tmp_path.iterdir()
    line = path.read_bytes()
    path.write_bytes(line + line[:kept])
    assert store(tmp_path).read() == [first]
    store(tmp_path).append([second])
    assert store(tmp_path).read() == [first, second]


def test_without_a_folder_nothing_is_kept() -> None:
    nowhere = ScoreStore(None, "d" * 64)
    nowhere.append([image(AutoRegressive())])
    assert nowhere.read() == []


def test_tokens_and_features_are_kept_and_lines_without_them_are_read(tmp_path: Path) -> None:
    full = Scored(AutoRegressive(), 7, True, (0.5,), np.arange(4, dtype="<u2").tobytes(), (1.5, 2.5))
    store(tmp_path).append([full])
    assert store(tmp_path).read() == [full]
    (path,) = tmp_path.iterdir()
    line = {name: value for name, value in json.loads(path.read_text()).items() if name not in ("tokens", "features")}
    path.write_text(json.dumps(line) + "\n")
    assert store(tmp_path).read() == [Scored(AutoRegressive(), 7, True, (0.5,))]
