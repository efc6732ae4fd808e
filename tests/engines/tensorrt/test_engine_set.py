"""Compiled engines are taken only where everything that they were made of, by and for is what is here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import tiny_bundle
from engine_sets import BACKEND, H200, VERSION, write_engine_set
from mulo_engines.bundle import Bundle
from mulo_engines.cuda.gpu import Gpu
from mulo_engines.errors import EngineStale
from mulo_engines.tensorrt.engine_set import EngineSet, engines_root, open_engine_set
from mulo_engines.tensorrt.record import RECORD_NAME


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle.open(tiny_bundle(tmp_path))


def _open(bundle: Bundle, gpu: Gpu | None = H200) -> EngineSet:
    return open_engine_set(bundle, backend=BACKEND, version=VERSION, gpu=gpu, root=engines_root(bundle.path))


def _assert_refused(bundle: Bundle, *words: str, gpu: Gpu | None = H200) -> None:
    with pytest.raises(EngineStale) as caught:
        _open(bundle, gpu)
    for word in (*words, f"mulo-export build {bundle.path} --backend tensorrt"):
        assert word in str(caught.value)


def test_engines_that_fit_are_found_with_their_plans(bundle: Bundle) -> None:
    write_engine_set(bundle, engines_root(bundle.path))
    engines = _open(bundle)
    assert engines.plan("target").read_bytes() == b"target"
    assert engines.engine("target").slots == 208


def test_engines_do_not_touch_the_bundle_that_they_lie_in(bundle: Bundle) -> None:
    write_engine_set(bundle, engines_root(bundle.path))
    assert Bundle.open(bundle.path).manifest == bundle.manifest


def test_engines_built_without_a_gpu_serve_every_machine(bundle: Bundle) -> None:
    write_engine_set(bundle, engines_root(bundle.path), gpu=None)
    assert _open(bundle).record.gpu is None
    assert _open(bundle, gpu=None).record.gpu is None


def test_where_nothing_was_compiled_the_command_that_does_it_is_named(bundle: Bundle) -> None:
    _assert_refused(bundle, "no engines", "tensorrt-11.4.0.106-nvidia-h200-sm9.0")


def test_engines_for_another_machine_are_named(bundle: Bundle) -> None:
    write_engine_set(bundle, engines_root(bundle.path))
    _assert_refused(bundle, "h200-sm9.0", "b200-sm10.0", gpu=Gpu("NVIDIA B200", "10.0", "13.0", 0))


def test_another_driver_is_refused_with_both_sides(bundle: Bundle) -> None:
    write_engine_set(bundle, engines_root(bundle.path))
    _assert_refused(bundle, "driver='13.0'", "driver='13.2'", gpu=replace(H200, driver="13.2"))


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ({"backend": "tensorrt-rtx"}, "backend tensorrt-rtx", "backend tensorrt"),
        ({"builder_version": "11.3"}, "builder_version 11.3", "builder_version 11.4.0.106"),
        ({"precision": "bf16"}, "precision bf16", "precision fp32"),
        ({"engines": ()}, "graphs ", "graphs decoder, downsampler"),
    ],
)
def test_a_field_that_differs_is_named_with_both_sides(
    bundle: Bundle, changes: dict[str, Any], found: str, expected: str
) -> None:
    write_engine_set(bundle, engines_root(bundle.path), **changes)
    _assert_refused(bundle, found, expected)


def test_engines_of_other_weights_are_refused(bundle: Bundle, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = Bundle.open(tiny_bundle(other, ratio=4))
    write_engine_set(stranger, engines_root(bundle.path))
    _assert_refused(bundle, "source of target", "weights/target.safetensors")


def _truncate(plan: Path) -> None:
    plan.write_bytes(plan.read_bytes()[:-1])


def _alter(plan: Path) -> None:
    plan.write_bytes(bytes(reversed(plan.read_bytes())))


def _link(plan: Path) -> None:
    plan.rename(plan.with_name("elsewhere"))
    plan.symlink_to(plan.with_name("elsewhere"))


@pytest.mark.parametrize("damage", [_truncate, _alter, _link, Path.unlink])
def test_a_plan_that_is_not_the_one_that_was_built_is_never_opened(bundle: Bundle, damage: Any) -> None:
    folder = write_engine_set(bundle, engines_root(bundle.path))
    damage(folder / "sampler.plan")
    _assert_refused(bundle, "sampler.plan")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not the record"),
        ("[]", "not the record"),
        ('{"schema_version": 2}', "schema_version"),
        ("missing", "no such file"),
        ("field", "images"),
        ("path", "plan.path"),
    ],
)
def test_a_record_that_is_not_as_it_should_be_is_refused(bundle: Bundle, content: str, words: str) -> None:
    record = write_engine_set(bundle, engines_root(bundle.path)) / RECORD_NAME
    known = json.loads(record.read_text())
    if content == "missing":
        record.unlink()
    elif content == "field":
        record.write_text(json.dumps({**known, "images": 0}))
    elif content == "path":
        known["engines"][0]["plan"]["path"] = "../../weights/target.safetensors"
        record.write_text(json.dumps(known))
    else:
        record.write_text(content)
    _assert_refused(bundle, words)


def test_the_command_names_where_the_engines_are_where_that_is_not_the_bundle(bundle: Bundle, tmp_path: Path) -> None:
    root = tmp_path / "elsewhere"
    with pytest.raises(EngineStale, match=f"--engines {root}"):
        open_engine_set(bundle, backend=BACKEND, version=VERSION, gpu=H200, root=root)
