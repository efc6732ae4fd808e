"""One plan has one cache length: a second, shorter one is a plan of its own, and takes the weights again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bundles import tiny_bundle
from conftest import MakeBundle
from engine_sets import H200
from mulo_engines.bundle import Bundle
from mulo_engines.errors import OutOfMemory, RequestError
from mulo_engines.manifest import Manifest
from mulo_engines.memory import ModelBuffers, plan_memory
from mulo_engines.tensorrt.engine_set import open_engine_set
from mulo_engines.tensorrt.profiles import PlanSizes
from mulo_export import compilation
from mulo_export.compilation import compile_bundle
from mulo_export.options import CompileOptions
from mulo_export.plan_sizes import lane_plan, plan_sizes

SIZES = PlanSizes(1, ModelBuffers(64, 16), ModelBuffers(256, 16))


@pytest.fixture
def manifest(shared_bundle: MakeBundle) -> Manifest:
    return Bundle.open(shared_bundle()).manifest


def test_a_second_plan_takes_the_weights_again_and_no_cache(manifest: Manifest) -> None:
    once = lane_plan(manifest, SIZES)
    twice = lane_plan(manifest, PlanSizes(1, SIZES.drafter, SIZES.target, {"target": 64}))
    (weights,) = (file.size for file in manifest.files if file.path == "weights/target.safetensors")
    assert once == plan_memory(manifest, lanes=1, images=1, drafter=SIZES.drafter, target=SIZES.target)
    assert twice.total - once.total == weights


def test_a_second_plan_that_does_not_fit_the_gpu_is_refused_with_the_sum(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = Bundle.open(tiny_bundle(tmp_path))
    free = lane_plan(manifest, plan_sizes(manifest, CompileOptions(queries=1))).total
    monkeypatch.setattr(compilation, "run_in_child", lambda *_: replace(H200, free_bytes=free))
    with pytest.raises(OutOfMemory, match=r"(?s)available.*weights again, for 48 slots.*total"):
        compile_bundle(bundle, "tensorrt-rtx", CompileOptions(queries=1, target_short_slots=48), lambda _: print)
    assert not (bundle.path / "engines").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (CompileOptions(queries=16, target_short_slots=24), "24 slots"),
        (CompileOptions(queries=16, target_short_slots=100), "multiple of 8"),
        (CompileOptions(queries=16, drafter_short_slots=4096), "--drafter-short-slots"),
    ],
    ids=["too short", "no multiple", "too long"],
)
def test_a_length_that_no_plan_can_have_is_refused(manifest: Manifest, options: CompileOptions, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        plan_sizes(manifest, options)


def _only(bundle: Bundle, *graphs: str) -> Bundle:
    """The bundle as if it had no other graphs."""
    kept = tuple(graph for graph in bundle.manifest.graphs if graph.name in graphs)
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"graphs": kept}))


def test_both_plans_are_built_recorded_and_found_by_their_length(tmp_path: Path) -> None:
    bundle = _only(Bundle.open(tiny_bundle(tmp_path)), "target", "feed")
    options = CompileOptions(queries=1, target_short_slots=48, engines=tmp_path / "engines")
    compilation = compile_bundle(bundle, "tensorrt-rtx", options, lambda _: lambda _: None)
    version = compilation.record.builder_version
    engines = open_engine_set(bundle, backend="tensorrt-rtx", version=version, gpu=None, root=tmp_path / "engines")
    whole = plan_sizes(bundle.manifest, options).target.slots
    assert engines.lengths("target") == (whole, 48)
    assert engines.lengths("feed") == ()
    assert engines.engine("target") == engines.engine("target", whole)
    assert engines.plan("target", 48) != engines.plan("target")
    for slots in engines.lengths("target"):
        engine = engines.engine("target", slots)
        assert engines.plan("target", slots).stat().st_size == engine.plan.size
        assert {profile.sizes["S"] for profile in engine.profiles} == {(slots, slots, slots)}
        assert all(a <= b <= c for profile in engine.profiles for a, b, c in profile.sizes.values())
