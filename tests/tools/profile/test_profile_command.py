"""`mulo profile` on a real bundle: everything that it measures is there, and adds up."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import MakeBundle
from PIL import Image

RunMulo = Callable[..., Result]
BRIEF = ("--threads", 1, "--seconds", 0, "--images", 2, "--queries", 8, "--matrix", 64)


@pytest.fixture
def report(mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path) -> dict[str, Any]:
    """The JSON of a profile of everything."""
    files = ("--json", tmp_path / "p.json", "--png", tmp_path / "p.png", "--trace", tmp_path / "p.trace.json")
    result = mulo("profile", shared_bundle(), *BRIEF, "--layers", "decoder", "--prompt", "a red circle", *files)
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads((tmp_path / "p.json").read_text())
    return content


def test_the_file_holds_every_graph_and_its_place_under_the_ceilings(report: dict[str, Any]) -> None:
    assert list(report) == ["bundle", "backend", "machine", "ceilings", "graphs", "layers", "loops"]
    assert {row["graph"] for row in report["graphs"]} >= {"target", "drafter", "sampler", "decoder", "upsampler"}
    bandwidth = max(report["ceilings"][f"{kind}_bytes_per_second"] for kind in ("copy", "read"))
    for row in report["graphs"]:
        moved = row["weight_bytes"] + row["cache_bytes"] + row["other_bytes"]
        limit = max(moved / bandwidth, row["flop"] / report["ceilings"]["flop_per_second"])
        assert row["limit_seconds"] == pytest.approx(limit)
        assert row["share_of_limit"] == pytest.approx(limit / row["seconds"]["p50"])
        assert row["bytes_per_second"] == pytest.approx(moved / row["seconds"]["p50"])
        assert 0 < row["seconds"]["p50"] <= row["seconds"]["p95"] <= row["seconds"]["p99"]
        assert row["other_seconds"]["p50"] > 0


def test_phases_add_up_to_the_image(report: dict[str, Any]) -> None:
    assert [row["method"] for row in report["loops"]] == ["mulo-sd", "ar"]
    for row in report["loops"]:
        assert sum(phase["cold"] for phase in row["phases"].values()) == pytest.approx(row["seconds"]["cold"])
        assert row["seconds"]["runs"] == 2
    speculative, plain = report["loops"]
    assert list(speculative["phases"])[:3] == ["draft", "upsample", "verify"]
    assert list(plain["phases"]) == ["decode tokens", "decode", "host"]
    assert plain["passes"]["target"] == 64


def test_layers_are_told_where_they_were_asked_for(report: dict[str, Any]) -> None:
    (row,) = report["layers"]
    assert (row["graph"], row["size"]) == ("decoder", "one image")
    assert {layer["kind"] for layer in row["layers"]} >= {"Conv"}


def test_the_picture_and_the_trace_are_written(report: dict[str, Any], tmp_path: Path) -> None:
    with Image.open(tmp_path / "p.png") as picture:
        assert picture.width == 1600
    events = json.loads((tmp_path / "p.trace.json").read_text())["traceEvents"]
    passes = [event for event in events if event.get("cat") == "pass"]
    assert len(passes) == sum(report["loops"][0]["passes"].values())


def test_the_tables_show_what_limits_each_graph(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    options = (*BRIEF, "--graph", "sampler", "--no-polygraphy", "--method", "zipar window=2", "--class-id", 1)
    shown = mulo("profile", shared_bundle(text=False), *options).stdout
    for text in ("matrix times a row", "of limit", "R 8, B 2", "zipar", "decode tokens", "whole image", "p99"):
        assert text in shown
    assert "upsampler" not in shown


def test_without_polygraphy_the_extra_and_the_way_around_are_named(
    mulo: RunMulo, shared_bundle: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polygraphy.backend.onnxrt", None)
    monkeypatch.delitem(sys.modules, "mulo_tools.profile.polygraphy_runner", raising=False)
    result = mulo("profile", shared_bundle(), *BRIEF)
    assert result.exit_code == 1
    assert "mulo[profile]" in result.stderr
    assert "--no-polygraphy" in result.stderr


def test_a_condition_that_the_bundle_does_not_take_is_a_wrong_request(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    options = (*BRIEF, "--graph", "sampler", "--no-polygraphy", "--class-id", 1)
    assert mulo("profile", shared_bundle(), *options).exit_code == 2


def test_graphs_are_timed_alone_where_no_image_is_asked_for(
    mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    options = (*BRIEF, "--graph", "sampler", "--no-polygraphy", "--images", 0)
    result = mulo("profile", shared_bundle(), *options)
    assert result.exit_code == 0
    assert "R 8, B 2" in result.stdout
    assert "whole image" not in result.stdout
    assert mulo("profile", shared_bundle(), *options, "--png", tmp_path / "p.png").exit_code == 2
