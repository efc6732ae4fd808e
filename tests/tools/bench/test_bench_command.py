"""`mulo bench` on a real bundle, from the command line to its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

RunMulo = Callable[..., Result]
Bench = Callable[..., list[dict[str, Any]]]

COLUMNS = [
    "method",
    "ratio",
    "settings",
    "images",
    "score",
    "score_low",
    "score_high",
    "score_difference_low",
    "texture_distance",
    "fid",
    "kid",
    "agreement",
    "seconds_per_image",
    "cpu_seconds_per_image",
    "speedup",
    "target_passes",
    "target_queries",
    "drafter_passes",
    "drafter_queries",
    "accepted_share",
    "resampled_share",
    "host_share",
]
TIMES = {"seconds_per_image", "speedup", "host_share"}


@pytest.fixture
def bench(mulo: RunMulo, scene_bundle: Path, tmp_path: Path) -> Bench:
    """The rows of `mulo bench` with these options."""

    def run(*options: object) -> list[dict[str, Any]]:
        chosen = ("--method", "zipar window=2", "--method", "mulo-sd tau=0.05", "--threads", 1, "--batch", 2)
        path = tmp_path / "report.json"
        result = mulo("bench", scene_bundle, *chosen, "--json", path, *options)
        assert result.exit_code == 0, result.output
        report = json.loads(path.read_text())
        assert list(report) == ["bundle", "machine", "rows"]
        rows: list[dict[str, Any]] = report["rows"]
        return rows

    return run


def test_every_row_has_every_column_in_order(bench: Bench) -> None:
    rows = bench("--images", 1, "--prompts", 2)
    assert [row["method"] for row in rows] == ["ar", "zipar", "mulo-sd"]
    assert all(list(row) == COLUMNS for row in rows)


def test_plain_decoding_takes_one_pass_a_token_and_zipar_fewer(bench: Bench) -> None:
    plain, zipar, speculative = bench("--images", 1, "--prompts", 0)
    assert (plain["target_passes"], plain["speedup"], plain["score"]) == (64, 1, None)
    assert zipar["target_passes"] == 8 + 7 * 2
    assert speculative["drafter_passes"] > 0
    assert 0 <= speculative["accepted_share"] <= 1
    assert 0 < speculative["host_share"] < 1


def test_a_bench_that_was_cut_short_ends_as_if_it_had_not_been(bench: Bench, tmp_path: Path) -> None:
    expected = bench("--images", 0, "--prompts", 5, "--out-dir", tmp_path / "whole")
    bench("--images", 0, "--prompts", 3, "--out-dir", tmp_path / "cut")
    (path,) = (tmp_path / "cut").iterdir()
    path.write_bytes(path.read_bytes()[:-30])
    assert bench("--images", 0, "--prompts", 5, "--out-dir", tmp_path / "cut") == expected
    assert len(path.read_text().splitlines()) == 3 * 5


def test_images_that_were_scored_before_are_not_made_again(bench: Bench, tmp_path: Path) -> None:
    first = bench("--images", 0, "--prompts", 4, "--out-dir", tmp_path / "out")
    (path,) = (tmp_path / "out").iterdir()
    written = path.read_bytes()
    assert bench("--images", 0, "--prompts", 4, "--out-dir", tmp_path / "out") == first
    assert path.read_bytes() == written
    assert bench("--images", 0, "--prompts", 2, "--out-dir", tmp_path / "out")[0]["images"] == 2


def test_another_split_or_seed_makes_other_images(bench: Bench, tmp_path: Path) -> None:
    for options in ((), ("--split", "report"), ("--seed", 1)):
        bench("--images", 0, "--prompts", 2, "--out-dir", tmp_path / "out", *options)
    (path,) = (tmp_path / "out").iterdir()
    assert len({json.loads(line)["seed"] for line in path.read_text().splitlines()}) == 3 * 2


def test_the_table_and_the_profile_are_printed(mulo: RunMulo, scene_bundle: Path) -> None:
    options = ("--images", 1, "--prompts", 0, "--threads", 1, "--method", "mulo-sd tau=0.05")
    result = mulo("bench", scene_bundle, *options, "--profile")
    for word in ("speed-up", "mulo-sd tau=0.05", "draft", "upsample", "verify", "host"):
        assert word in result.stdout


def test_a_method_that_is_not_understood_costs_no_image(mulo: RunMulo, scene_bundle: Path) -> None:
    result = mulo("bench", scene_bundle, "--method", "zipar speed=9")
    assert result.exit_code == 2
    assert "speed" in result.stderr


def test_images_that_were_timed_before_are_not_timed_again(bench: Bench, tmp_path: Path) -> None:
    options = ("--prompts", 0, "--out-dir", tmp_path / "out")
    first = bench("--images", 2, *options)
    (path,) = (tmp_path / "out").iterdir()
    whole = path.read_bytes()
    assert len(whole.splitlines()) == 2 * 3
    assert bench("--images", 2, *options) == first
    path.write_bytes(whole[:-40])
    again = bench("--images", 2, *options)
    assert [row["target_passes"] for row in again] == [row["target_passes"] for row in first]


def test_the_frontier_is_drawn(bench: Bench, mulo: RunMulo, scene_bundle: Path, tmp_path: Path) -> None:
    bench("--images", 1, "--prompts", 2, "--picture", tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").read_bytes().startswith(b"\x89PNG")
    result = mulo("bench", scene_bundle, "--images", 0, "--picture", tmp_path / "none.png")
    assert result.exit_code == 2
    assert "both times and scores" in result.stderr
