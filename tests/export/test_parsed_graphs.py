"""Every graph of every kind of bundle, as NVIDIA's parser understands it: no input dropped, no type another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from bundles import tiny_bundle, tiny_options
from mulo_engines.bundle import Bundle
from mulo_engines.child import run_in_child
from mulo_engines.errors import BuildError
from mulo_engines.tensorrt.build import BuildJob, BuildSettings, build_plan
from mulo_export.bundle_writer import write_bundle
from mulo_export.compilation import compile_bundle, plan_job
from mulo_export.options import CompileOptions
from mulo_export.plan_sizes import plan_sizes
from mulo_export.precision import TENSORRT_FORMS, Precision
from parse_tasks import parse
from tar_checkpoints import tar_checkpoints, tar_sources

FORMS = [precision for precision in Precision if precision not in TENSORRT_FORMS]


def _tar_bundle(folder: Path, precision: Precision) -> Path:
    options = tiny_options(precision=precision)
    write_bundle(tar_sources(tar_checkpoints(folder)), options, folder / "bundle", lambda _: None)
    return folder / "bundle"


BUNDLES: Mapping[str, Callable[[Path, Precision], Path]] = {
    "text": lambda folder, precision: tiny_bundle(folder, precision=precision),
    "class": lambda folder, precision: tiny_bundle(folder, text=False, ratio=4, precision=precision),
    "ta_tok": _tar_bundle,
}


def _jobs(bundle: Bundle, folder: Path) -> list[BuildJob]:
    sizes = plan_sizes(bundle.manifest, CompileOptions(queries=4))
    settings = BuildSettings("tensorrt-rtx")
    return [plan_job(bundle, graph, sizes, settings, folder) for graph in bundle.manifest.graphs]


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        *(("text", precision) for precision in FORMS),
        ("class", Precision.FP16),
        ("ta_tok", Precision.FP32),
        ("ta_tok", Precision.BF16),
    ],
)
def test_no_input_is_dropped_and_every_type_is_the_manifests(kind: str, precision: Precision, tmp_path: Path) -> None:
    bundle = Bundle.open(BUNDLES[kind](tmp_path, precision))
    jobs = _jobs(bundle, tmp_path)
    assert len(jobs) == len(bundle.manifest.graphs) == 10
    assert run_in_child("parsing", partial(parse, jobs), lambda _: None) == [job.graph for job in jobs]


def test_the_condition_that_decodes_ta_tok_codes_is_built(tmp_path: Path) -> None:
    jobs = _jobs(Bundle.open(_tar_bundle(tmp_path, Precision.FP16)), tmp_path)
    for job in jobs:
        if job.graph.endswith(".condition"):
            result = run_in_child("building", partial(build_plan, job), lambda _: None)
            assert (result.attention, dict(result.in_place)) == ("fused", {})


@pytest.mark.parametrize("precision", list(TENSORRT_FORMS))
def test_the_form_of_onnx_runtime_is_refused_with_the_export_that_helps(precision: str, tmp_path: Path) -> None:
    bundle = Bundle.open(tiny_bundle(tmp_path, precision=Precision(precision)))
    with pytest.raises(BuildError, match=f"(?s)found:    precision {precision}.*--precision {precision}-tensorrt"):
        compile_bundle(bundle, "tensorrt-rtx", CompileOptions(), lambda _: lambda _: None)
    assert not (bundle.path / "engines").exists()
