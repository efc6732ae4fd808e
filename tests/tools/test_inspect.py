"""`mulo inspect`: everything that a bundle says of itself, verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bundles import tiny_bundle
from click.testing import Result
from conftest import MakeBundle
from engine_sets import write_engine_set
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.tensorrt.engine_set import engines_root
from mulo_runtime import AutoRegressive, MuloSD, ZipAR
from mulo_runtime.capacity import lane_memory
from mulo_runtime.lane import LANE_GRAPHS, Lane

RunMulo = Callable[..., Result]


def test_the_tables_name_what_a_user_needs_to_know(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    shown = mulo("inspect", shared_bundle()).stdout
    for text in ("llamagen-t2i", "32 x 32 pixels", "4 x 4 tokens", "8 x 8 tokens", "a, and, blue, circle, red, square"):
        assert text in shown
    for text in ("guidance_scale", "tau", "weights/vq.safetensors", "drafter.safetensors", "skipped", "onnxruntime 1."):
        assert text in shown
    assert "target caches" not in shown


def test_memory_is_shown_part_by_part_on_request(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    shown = mulo("inspect", shared_bundle(), "--memory").stdout
    for part in ("weights/target.safetensors", "drafter caches", "target caches", "sampler", "total"):
        assert part in shown


def test_json_holds_the_manifest_the_defaults_and_the_memory(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    report = json.loads(mulo("inspect", shared_bundle(ratio=4), "--json").stdout)
    assert report["manifest"]["ratio"] == 4
    assert report["defaults"]["temperature"] == 1.0
    assert report["defaults"]["pool_k"] == 4
    assert report["words"] == ["a", "and", "blue", "circle", "red", "square"]
    *parts, total = report["memory"].values()
    assert sum(parts) == total


def test_compiled_engines_are_listed_with_what_they_take(mulo: RunMulo, tmp_path: Path) -> None:
    bundle = Bundle.open(tiny_bundle(tmp_path))
    folder = write_engine_set(bundle, engines_root(bundle.path))
    shown = mulo("inspect", bundle.path, "--memory").stdout
    assert folder.name in shown
    assert "activations, upper estimate" in shown
    assert "3.0" in shown
    report = json.loads(mulo("inspect", bundle.path, "--json").stdout)
    assert report["engines"][folder.name]["engines"][0]["activation_bytes"] == 3 * 2**20


def test_engines_that_lie_elsewhere_are_listed_too(mulo: RunMulo, tmp_path: Path) -> None:
    bundle = Bundle.open(tiny_bundle(tmp_path))
    folder = write_engine_set(bundle, tmp_path / "engines")
    assert folder.name not in mulo("inspect", bundle.path, "--memory").stdout
    assert folder.name in mulo("inspect", bundle.path, "--memory", "--engines", tmp_path / "engines").stdout


def test_a_class_conditional_bundle_lists_no_words(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    shown = mulo("inspect", shared_bundle(text=False)).stdout
    assert "class id, 0 to 4" in shown
    assert "words" not in shown


def test_a_bundle_that_cannot_be_verified_is_refused(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    result = mulo("inspect", shared_bundle().parent)
    assert (result.exit_code, result.stdout) == (3, "")


@pytest.mark.parametrize("method", [AutoRegressive(), ZipAR(2), MuloSD(pool_k=4), MuloSD(pool_k=4, rows_per_round=0)])
@pytest.mark.parametrize("images", [1, 3])
def test_the_memory_of_a_lane_is_what_a_lane_allocates(shared_bundle: MakeBundle, method: object, images: int) -> None:
    bundle = Bundle.open(shared_bundle())
    backend = open_backend("onnxruntime", threads=1)
    engines = {name: backend.load(bundle, name) for name in LANE_GRAPHS}
    lane = Lane(engines, bundle.manifest, images, 256, [method])
    plan = lane_memory(bundle.manifest, [method], images=images)
    planned = sum(size for part, size in plan.parts.items() if not part.startswith("weights/"))
    scalars = 64
    assert lane.nbytes <= planned <= lane.nbytes + scalars
