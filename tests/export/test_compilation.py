"""The engines of a bundle: what `mulo-export` builds, says of it, and leaves behind when it cannot."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundles import tiny_bundle
from click.testing import CliRunner, Result
from engine_sets import write_engine_set
from mulo_engines.bundle import Bundle
from mulo_engines.cache_tensors import cache_pairs
from mulo_engines.memory import ModelBuffers
from mulo_engines.signature import graph_signature
from mulo_engines.tensorrt.binding import load_binding
from mulo_engines.tensorrt.engine_set import EngineSet, engines_root, open_engine_set, set_folder
from mulo_engines.tensorrt.profiles import PlanSizes
from mulo_export import cli, compilation
from mulo_export.options import CompileOptions
from mulo_export.plan_sizes import plan_sizes

BACKEND = "tensorrt-rtx"
WAIT = 240.0


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def _open(bundle: Bundle, root: Path) -> EngineSet:
    return open_engine_set(bundle, backend=BACKEND, version=load_binding(BACKEND).version, gpu=None, root=root)


def _content(folder: Path) -> dict[str, bytes]:
    """Every file of a bundle but what a build leaves for the next one to remove."""
    files = (path for path in folder.rglob("*") if path.is_file())
    inner = {path.relative_to(folder) for path in files}
    return {str(path): (folder / path).read_bytes() for path in inner if not any(p[0] == "." for p in path.parts)}


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return Bundle.open(tiny_bundle(tmp_path))


@pytest.mark.timeout(900)
def test_the_reference_family_is_exported_and_every_graph_of_it_compiled(tmp_path: Path) -> None:
    out = tmp_path / "reference"
    result = _run("reference", "--out", out, "--skip-parity", "--backend", BACKEND, "--backend", "onnxruntime")
    assert result.exit_code == 0, result.output
    opened = Bundle.open(out)
    engines = _open(opened, engines_root(opened.path))
    assert result.stdout.split() == [str(out), str(engines.path)]
    for graph in opened.manifest.graphs:
        engine = engines.engine(graph.name)
        caches = cache_pairs(graph_signature(opened.manifest, graph.name).inputs)
        assert engine.in_place == caches
        assert engine.attention == ("decomposed" if caches else "none")
        assert engine.build_peak_bytes < 4 * 2**30
        assert engines.plan(graph.name).stat().st_size == engine.plan.size
    total = sum(engine.build_seconds for engine in engines.record.engines)
    assert total < 600, f"{total} s"


def test_a_kill_in_the_middle_of_a_build_leaves_everything_as_it_was(bundle: Bundle) -> None:
    root = engines_root(bundle.path)
    folder = set_folder(root, BACKEND, load_binding(BACKEND).version, None)
    write_engine_set(bundle, root, gpu=None).rename(folder)
    before = _content(bundle.path)
    arguments = [str(Path(sys.executable).with_name("mulo-export")), "build", str(bundle.path), "--backend", BACKEND]
    arguments += ["--queries", "1"]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(root / f".{folder.name}.partial", "drafter-*.plan")
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    assert _content(bundle.path) == before
    assert Bundle.open(bundle.path).manifest == bundle.manifest


def _wait_for(folder: Path, pattern: str) -> None:
    end = time.monotonic() + WAIT
    while not list(folder.glob(pattern)):
        assert time.monotonic() < end, folder
        time.sleep(0.02)


def test_onnx_runtime_has_nothing_to_keep(bundle: Bundle) -> None:
    before = _content(bundle.path)
    result = _run("build", bundle.path, "--backend", "onnxruntime")
    assert (result.exit_code, result.stdout) == (0, "")
    assert _content(bundle.path) == before


def test_a_graph_that_onnx_runtime_cannot_load_is_refused(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path)
    feed = path / "feed.onnx"
    feed.write_bytes(bytes(reversed(feed.read_bytes())))
    opened = Bundle.open(path, verify="size")
    with pytest.raises(Exception, match="feed"):
        compilation.check_onnxruntime(opened)


def test_a_builder_that_is_not_installed_leaves_a_bundle_without_engines(tmp_path: Path) -> None:
    out = tmp_path / "reference"
    result = _run("reference", "--out", out, "--skip-parity", "--backend", "tensorrt")
    assert result.exit_code == 1
    assert "pip install 'mulo[tensorrt]'" in result.stderr
    assert Bundle.open(out).manifest.ratio == 2
    assert not engines_root(out).exists()


def test_a_build_that_does_not_fit_the_memory_is_refused_with_the_sum(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "available_memory", lambda: 2**20)
    result = _run("build", bundle.path, "--backend", BACKEND)
    assert result.exit_code == 1
    for words in ("1.0 MiB available", "builder", "total"):
        assert words in result.stderr
    assert [path.name for path in engines_root(bundle.path).iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("option", ["--target-slots", "--drafter-slots"])
@pytest.mark.parametrize("slots", [8, 1001])
def test_a_cache_that_holds_no_image_or_suits_no_kernel_is_refused(bundle: Bundle, option: str, slots: int) -> None:
    result = _run("build", bundle.path, "--backend", BACKEND, option, str(slots))
    assert result.exit_code == 2
    assert "multiple of 8" in result.stderr


def test_plans_are_made_for_the_sizes_that_are_asked_for(bundle: Bundle) -> None:
    options = CompileOptions(images=3, queries=16, drafter_slots=1000, target_slots=2000)
    sizes = plan_sizes(bundle.manifest, options)
    assert sizes == PlanSizes(3, drafter=ModelBuffers(1000, 16), target=ModelBuffers(2000, 16))


def test_a_folder_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    assert _run("build", tmp_path, "--backend", BACKEND).exit_code == 3


@pytest.mark.parametrize("options", [[], ["--backend", "openvino"], ["--backend", BACKEND, "--images", "0"]])
def test_wrong_usage_is_told_apart(bundle: Bundle, options: list[str]) -> None:
    assert _run("build", bundle.path, *options).exit_code == 2
