"""Plans are loaded, checked, bound and enqueued as TensorRT wants it, as far as doubles can show: all but kernels."""

from __future__ import annotations

import json
import re
from inspect import signature
from pathlib import Path
from typing import Any

import device_tasks
import numpy as np
import pytest
import tensorrt_rtx
from bundles import tiny_bundle
from mulo_engines.errors import EngineError, EngineMismatch, RequestError, ShapeError
from mulo_engines.manifest import MANIFEST_NAME, read_manifest
from mulo_runtime import AutoRegressive, MuloSD, Pipeline, Prompt, Request, ZipAR
from mulo_runtime.capacity import lane_sizes
from PIL import Image
from pipelines import request
from plan_double import CudaEngine, ExecutionContext, Runtime
from stub_driver import OnStubDriver

METHODS = [AutoRegressive(), ZipAR(window=3), MuloSD(), MuloSD(draft="rows"), MuloSD(rows_per_round=0, refresh="none")]


@pytest.mark.parametrize(
    ("double", "real"),
    [
        (Runtime, tensorrt_rtx.Runtime),
        (CudaEngine, tensorrt_rtx.ICudaEngine),
        (ExecutionContext, tensorrt_rtx.IExecutionContext),
    ],
)
def test_the_doubles_have_methods_of_the_library_with_its_arguments(double: type, real: type) -> None:
    methods = [name for name in vars(double) if not name.startswith("_") and callable(getattr(double, name))]
    assert methods
    for name in methods:
        wanted = list(signature(getattr(double, name)).parameters)
        assert any(given[: len(wanted)] == wanted for given in documented(getattr(real, name))), name


def documented(method: Any) -> list[list[str]]:
    """The names of the arguments of every form of a method of the library, `self` included."""
    heads = re.findall(r"^(?:\d+\. )?\w+\((self: .*)\) ->", method.__doc__, re.MULTILINE)
    return [["self", *re.findall(r", (\w+): ", head)] for head in heads]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return tiny_bundle(tmp_path)


@pytest.mark.parametrize("images", [1, 2])
def test_plans_draw_what_the_host_draws_and_after_the_warm_up_every_run_is_a_graphs(
    bundle: Path, on_stub_driver: OnStubDriver, images: int
) -> None:
    cold, warm = on_stub_driver(device_tasks.draw, bundle, METHODS, images)
    with Pipeline.open(bundle, threads=1, methods=METHODS, images=images) as host:
        for method, (tokens, read_backs, slow_runs), (again, _, none) in zip(METHODS, cold, warm, strict=True):
            expected = host.generate_batch([request(seed, method) for seed in range(images)])
            assert np.array_equal(tokens, [result.tokens for result in expected])
            assert np.array_equal(again, tokens)
            assert sum(read_backs.values()) <= 3 * max(expected[0].statistics.rounds, 1) + 1
            assert slow_runs
            assert none == 0


def test_contexts_are_made_one_a_profile_on_memory_that_they_share_and_bound_where_something_changed(
    bundle: Path, on_stub_driver: OnStubDriver
) -> None:
    contexts = on_stub_driver(device_tasks.contexts, bundle)
    profiles = [profile for name, profile, *_ in contexts if name == "target"]
    assert len(profiles) == len(set(profiles))
    assert len({scratch for *_, scratch, _, _ in contexts if scratch}) == 1
    (runs, binds) = next(
        (runs, binds) for name, profile, _, runs, binds in contexts if (name, profile) == ("target", 1)
    )
    assert runs == 63  # Every token but the first, which the condition's profile draws.
    assert binds == 7 + 2 * 4  # Once for all: inputs, logits, and two layers' keys and values in and out.


FAULTS: dict[str, tuple[type[EngineError], str]] = {
    "alias": (EngineMismatch, r"(?s)target: the plan is not what it was built to be.*in place nothing"),
    "profiles": (EngineMismatch, r"(?s)target: the plan is not what it was built to be.*found: +1 profiles"),
    "dtype": (EngineMismatch, r"(?s)target: .*logits float16"),
    "kind": (EngineMismatch, r"(?s)logits: no graph of a bundle has a type like this.*FP8"),
    "execute": (EngineError, r"target: the plan cannot be enqueued"),
    "context": (EngineError, r"target: no context can be made"),
    "refused": (EngineError, r"(?s)target: .*target-\d+.plan cannot be loaded.*not of this version"),
}


def test_a_plan_that_is_not_what_it_must_be_is_refused_with_both_sides(
    bundle: Path, on_stub_driver: OnStubDriver
) -> None:
    errors = on_stub_driver(device_tasks.broken, bundle)
    assert errors.keys() == FAULTS.keys()
    for fault, (kind, message) in FAULTS.items():
        assert type(errors[fault]) is kind
        assert re.search(message, str(errors[fault]))


def test_what_an_engine_refuses_names_what_it_serves(bundle: Path, on_stub_driver: OnStubDriver) -> None:
    errors = on_stub_driver(device_tasks.misuse, bundle)
    expected: list[tuple[type[Exception], str]] = [
        (ShapeError, "'k_cache.0' is updated in place"),
        (ShapeError, r"(?s)decoder: the plan was not built for these sizes.*N = 2.*N 1-1"),
        (EngineError, "the engine was closed"),
        (EngineError, "the engine was closed"),
    ]
    for error, (kind, message) in zip(errors, expected, strict=True):
        assert isinstance(error, kind)
        assert re.search(message, str(error))


UNSERVED = [
    ({"images": 2}, r"(?s)compiled for fewer images.*2 decoded together.*at most 1.*build .*--images 2"),
    ({"methods": [MuloSD(rows_per_round=0, refresh="block")]}, r"(?s)shorter cache.*--target-slots \d+"),
]


def test_a_pipeline_that_the_engines_do_not_serve_is_refused_with_the_command_that_builds_them(
    bundle: Path, on_stub_driver: OnStubDriver
) -> None:
    errors = on_stub_driver(device_tasks.unserved, bundle, *[settings for settings, _ in UNSERVED])
    for error, (_, message) in zip(errors, UNSERVED, strict=True):
        assert isinstance(error, RequestError)
        assert re.search(message, str(error))


def test_a_gpu_that_has_too_little_memory_is_refused_before_anything_is_loaded(
    bundle: Path, on_stub_driver: OnStubDriver
) -> None:
    (error,) = on_stub_driver(device_tasks.unserved, bundle, {}, MEM_MB=0)
    assert re.search(r"(?s)does not fit the memory.*scratch.*total", str(error))


def test_without_a_gpu_the_backend_says_so(bundle: Path, on_stub_driver: OnStubDriver) -> None:
    error = on_stub_driver(device_tasks.without_gpu, bundle, COUNT=0)
    assert re.search(r"(?s)'tensorrt-rtx' found no GPU.*--backend onnxruntime", str(error))


def test_a_pipeline_takes_the_shortest_cache_that_holds_its_methods(bundle: Path, on_stub_driver: OnStubDriver) -> None:
    manifest = read_manifest(bundle / MANIFEST_NAME)
    short = lane_sizes(manifest, [AutoRegressive(), ZipAR()], 256).target.slots
    (first, drawn), (second, again) = on_stub_driver(device_tasks.lengths, bundle, short)
    assert (first, second) == (short, lane_sizes(manifest, [MuloSD()], 256).target.slots)
    assert np.array_equal(drawn, again)


def test_the_command_line_draws_by_plans_the_image_that_the_host_draws(
    bundle: Path, on_stub_driver: OnStubDriver, tmp_path: Path
) -> None:
    code, output = on_stub_driver(device_tasks.generate, bundle, tmp_path / "image.png")
    assert code == 0, output
    with Pipeline.open(bundle, threads=1) as host, Image.open(tmp_path / "image.png") as image:
        expected = host.generate(Request(Prompt("red circle"), seed=3)).image
        assert np.array_equal(np.asarray(image), expected)


def test_plans_are_compared_with_the_host_graph_by_graph_and_token_by_token(
    bundle: Path, on_stub_driver: OnStubDriver
) -> None:
    code, output = on_stub_driver(device_tasks.verify, bundle)
    assert code == 0, output


def test_a_gpu_that_is_too_old_is_refused(bundle: Path, on_stub_driver: OnStubDriver) -> None:
    error = on_stub_driver(device_tasks.without_gpu, bundle, CC="7.5")
    assert re.search(r"(?s)not made for this version of GPU.*7\.5.*>=8\.0", str(error))


def test_plans_are_profiled_by_what_the_device_takes_until_they_are_done(
    bundle: Path, on_stub_driver: OnStubDriver, tmp_path: Path
) -> None:
    code, output = on_stub_driver(device_tasks.profile, bundle, tmp_path)
    assert code == 0, output
    report = json.loads((tmp_path / "p.json").read_text())
    assert report["ceilings"]["flop_per_second"] is None
    assert {row["graph"] for row in report["graphs"]} >= {"target", "drafter", "sampler", "decoder"}
