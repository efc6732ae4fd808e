"""A machine's check on bundles that are small: what it finds, and what it says of what it could not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundles import VOCABULARY, vq_tensors
from click.testing import Result
from conftest import MakeBundle
from mulo_engines.backend import Backend
from mulo_engines.backends import open_backend
from mulo_engines.buckets import SLOT_STEP
from mulo_engines.bundle import Bundle
from mulo_engines.cache_slots import recommended_buffers
from mulo_engines.cost import ModelCost, PassSize
from mulo_engines.errors import DeadlineExceeded, EngineUnavailable
from mulo_export.family_defaults import REFERENCE
from mulo_export.precision import Precision
from mulo_export.sources import read_source_tokenizer
from mulo_tools.gpu_check import check as checking
from mulo_tools.gpu_check import command
from mulo_tools.gpu_check.check import check, step_bytes
from mulo_tools.gpu_check.clock import Clock
from mulo_tools.gpu_check.subjects import SUBJECTS, Subject, prepare, tar_subject
from mulo_tools.synthetic_tar import LP, TarShape
from safetensors.numpy import save_file
from tar_checkpoints import PREFIX, TA_TOK
from verify_sides import ChangedBackend, draw_after

RunMulo = Callable[..., Result]
SMALL = ("--backend", "onnxruntime", "--threads", 1, "--matrix", 64)


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    path = tmp_path_factory.mktemp("vq") / "vq.safetensors"
    save_file(vq_tensors(np.random.default_rng(0), channels=32), path, {"groups": "4", "norm_eps": "1e-06"})
    sizes = {"layers": 2, "heads": 2, "dim": 32, "ffn": 48, "prefix": PREFIX}
    transformer = replace(LP.transformer, vocabulary=VOCABULARY, feature_size=TA_TOK.dim, **sizes)
    return tar_subject(TarShape(transformer, TA_TOK, read_source_tokenizer(path).config), 2, 4, Precision.FP16)


@pytest.fixture(scope="module")
def bundle(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return prepare(subject, tmp_path_factory.mktemp("subjects") / "tar")


@pytest.fixture
def run(mulo: RunMulo, subject: Subject, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> RunMulo:
    """`mulo gpu-check` on the small subject alone."""
    monkeypatch.setattr(command, "SUBJECTS", {bundle.path.name: subject})

    def check_with(*options: object) -> Result:
        return mulo("gpu-check", *SMALL, "--folder", bundle.path.parent, *options)

    return check_with


def test_a_bundle_of_random_weights_has_the_shape_that_was_asked_for(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.family, manifest.precision, manifest.ratio) == ("tar", "fp16", 2)
    assert (manifest.drafter.rows, manifest.target.rows, manifest.condition.length) == (2, 4, PREFIX)


def test_a_bundle_is_exported_once(subject: Subject, bundle: Bundle) -> None:
    before = (bundle.path / "bundle.json").stat().st_mtime_ns
    assert prepare(subject, bundle.path).manifest == bundle.manifest
    assert (bundle.path / "bundle.json").stat().st_mtime_ns == before
    assert not list(bundle.path.parent.glob(".checkpoints-*"))


def test_the_shipped_family_is_checked_as_it_is_exported(tmp_path: Path) -> None:
    manifest = prepare(SUBJECTS["reference-128px"], tmp_path / "bundle").manifest
    recommended = REFERENCE[4]
    assert manifest.steepness == recommended.steepness > 1
    assert (manifest.mulo, manifest.sampling) == (recommended.mulo, recommended.sampling)


def test_published_subjects_are_of_published_size() -> None:
    assert list(SUBJECTS) == ["reference-64px", "reference-128px", "lp-512px", "lp-1024px"]
    shape = LP.transformer
    assert (shape.layers, shape.heads, shape.dim, shape.ffn, shape.prefix) == (30, 20, 1280, 3584, 729)


def test_everything_that_runs_is_timed(subject: Subject, bundle: Bundle) -> None:
    found = check("tar", subject, bundle, "onnxruntime", 1, 1e9, Clock(60))
    assert found.failure is None
    assert found.agrees
    assert found.plain_seconds is not None
    assert found.step_seconds is not None
    assert 0 < 16 * found.step_seconds < found.plain_seconds
    assert len(found.mulo_seconds) == len(subject.variants) == 2
    assert found.limit_seconds == pytest.approx(step_bytes(bundle, compiled=False) / 1e9)


def test_a_steps_bytes_are_those_of_the_cache_that_it_sees(bundle: Bundle) -> None:
    """All of the 25 slots that this image fills lie within the shortest cache that is bound, which is the whole one."""
    (capacity,) = {buffers.slots for buffers in recommended_buffers(bundle.manifest, queries=256)[1:]}
    assert capacity < SLOT_STEP
    cost = ModelCost.of(bundle, "target").cost(PassSize(2, 1, capacity, 1)).bytes
    assert step_bytes(bundle, compiled=False) == step_bytes(bundle, compiled=True) == cost


def test_a_growing_cache_moves_less_than_one_that_was_compiled(shared_bundle: MakeBundle) -> None:
    bundle = Bundle.open(shared_bundle(ratio=4))
    growing, compiled = (step_bytes(bundle, compiled=compiled) for compiled in (False, True))
    shortest = ModelCost.of(bundle, "target").cost(PassSize(2, 1, SLOT_STEP, 1)).bytes
    assert shortest < growing < compiled


def test_the_table_and_the_file_hold_what_was_found(run: RunMulo, bundle: Bundle, tmp_path: Path) -> None:
    result = run("--json", tmp_path / "found.json")
    assert result.exit_code == 0, result.output
    for text in ("AR s/image", "MuLo-SD s/image", "of limit", "agrees", " to "):
        assert text in result.stdout
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert (found["subject"], found["backend"], found["agrees"]) == (bundle.path.name, "onnxruntime", True)


def test_a_backend_that_computes_something_else_ends_with_exit_code_4(
    run: RunMulo, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = iter([{"target": (None, draw_after(PREFIX + 2, 9))}])

    def opened(name: str, **settings: int) -> Backend:
        return ChangedBackend(next(changed, {}))

    monkeypatch.setattr(checking, "open_backend", opened)
    result = run()
    assert result.exit_code == 4
    assert "differs" in result.stdout
    assert "mulo verify" in result.stderr


def test_what_the_time_does_not_suffice_for_is_told(
    subject: Subject, bundle: Bundle, run: RunMulo, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check("tar", subject, bundle, "onnxruntime", 1, None, Clock(0))
    assert found.failure is not None
    assert "no time left for comparing" in found.failure
    assert (found.agrees, found.limit_seconds) == (None, None)
    monkeypatch.setattr(command, "Clock", lambda budget: Clock(0))
    result = run()
    assert result.exit_code == 1
    assert "no time left for another subject" in result.stdout
    with pytest.raises(DeadlineExceeded):
        Clock(0).remaining("anything")


def test_what_was_found_before_the_time_was_up_is_kept(subject: Subject, bundle: Bundle) -> None:
    class Short(Clock):
        """Lets one image of MuLo-SD be decoded, which is two runs, after the two of plain decoding."""

        decoded = 0

        def remaining(self, stage: str) -> float:
            Short.decoded += stage == "decoding"
            return 60.0 if Short.decoded <= 4 else super().remaining(stage)

    found = check("tar", subject, bundle, "onnxruntime", 1, 1e9, Short(0))
    assert (found.agrees, len(found.mulo_seconds)) == (True, 1)
    assert found.limit_seconds is not None
    assert found.failure is not None
    assert "no time left for decoding" in found.failure


def test_a_backend_that_does_not_open_is_told_and_left_out(
    mulo: RunMulo, subject: Subject, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(name: str, **settings: int) -> Backend:
        if name == "tensorrt":
            raise EngineUnavailable("there is no GPU")
        return open_backend(name, **settings)

    monkeypatch.setattr(command, "SUBJECTS", {bundle.path.name: subject})
    monkeypatch.setattr(command, "BACKEND_NAMES", ("onnxruntime", "tensorrt"))
    monkeypatch.setattr(command, "open_backend", opened)
    result = mulo("gpu-check", "--threads", 1, "--matrix", 64, "--folder", bundle.path.parent)
    assert result.exit_code == 0, result.output
    assert "tensorrt is left out: there is no GPU" in result.stderr
