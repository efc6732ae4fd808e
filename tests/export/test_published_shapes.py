"""Targets of published shapes, with random weights, become engines with every profile and fused attention."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_options, vq_tensors
from mulo_engines.bundle import Bundle
from mulo_engines.child import run_in_child
from mulo_engines.tensorrt.build import BuildResult, BuildSettings, build_plan
from mulo_export.bundle_writer import write_bundle
from mulo_export.calibration import Calibration, InputRange, RoleCalibration
from mulo_export.checkpoints.llamagen import TransformerConfig
from mulo_export.checkpoints.read_transformer import transformer_shapes
from mulo_export.compilation import plan_job
from mulo_export.hashing import hash_file
from mulo_export.options import CompileOptions
from mulo_export.plan_sizes import plan_sizes
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.sources import read_source_tokenizer, read_source_transformer, read_sources
from mulo_tools.synthetic import preset_config, write_random_checkpoint
from safetensors.numpy import save_file

MEMORY_BAR = 4 * 2**30
RECOMMENDED = {"rows_per_round": 1, "refresh": "block", "draft": "image"}


def _build(
    folder: Path, config: TransformerConfig, precision: Precision, queries: int = 256, calibrated: bool = False
) -> BuildResult:
    """Export a bundle whose target has this config, and build the target."""
    low = replace(config, layers=1, grid=config.grid // 2)
    for role, model in (("drafter", low), ("target", config)):
        write_random_checkpoint(folder / f"{role}.safetensors", model, dtype=PRECISIONS[precision].weight_type)
    rng = np.random.default_rng(0)
    save_file(vq_tensors(rng, vocabulary=config.vocabulary), folder / "vq.safetensors", {"groups": "4"})
    drafter, target = (read_source_transformer(folder / f"{role}.safetensors") for role in ("drafter", "target"))
    sources = read_sources(drafter, target, read_source_tokenizer(folder / "vq.safetensors"))
    calibration = _write_calibration(folder, config) if calibrated else None
    options = tiny_options(precision=precision, pool_k_max=1, mulo=RECOMMENDED, calibration=calibration)
    write_bundle(sources, options, folder / "bundle", lambda _: None)
    bundle = Bundle.open(folder / "bundle", verify="size")
    graph = next(graph for graph in bundle.manifest.graphs if graph.name == "target")
    sizes = plan_sizes(bundle.manifest, CompileOptions(queries=queries))
    job = plan_job(bundle, graph, sizes, BuildSettings("tensorrt-rtx"), folder)
    return run_in_child("building the target", partial(build_plan, job), lambda _: None)


def _write_calibration(folder: Path, config: TransformerConfig) -> Path:
    """A calibration by which the inputs of all layers but those behind SwiGLU may become int8."""
    names = [name for name, shape in transformer_shapes(config).items() if len(shape) == 2]
    inputs = {name: InputRange(amax=8.0, rms=0.1 if "w2" in name else 1.0) for name in names if "layers." in name}
    files = {role: hash_file(folder / f"{role}.safetensors").sha256 for role in ("drafter", "target")}
    drafter, target = (RoleCalibration(checkpoint=digest, inputs=inputs) for digest in files.values())
    path = folder / "calibration.json"
    path.write_text(Calibration(images=1, drafter=drafter, target=target).model_dump_json())
    return path


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("precision", "calibrated"),
    [(Precision.FP8, True), (Precision.INT8_TENSORRT, True), (Precision.INT4_TENSORRT, False)],
)
def test_quantized_layers_as_wide_as_llamagen_b(tmp_path: Path, precision: Precision, calibrated: bool) -> None:
    config = replace(preset_config("B", text=False, grid=16), layers=2)
    result = _build(tmp_path, config, precision, queries=1, calibrated=calibrated)
    assert (result.attention, len(result.in_place)) == ("fused", 2 * config.layers)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
def test_llamagen_b_at_256_pixels(tmp_path: Path, precision: Precision) -> None:
    config = preset_config("B", text=False, grid=16)
    result = _build(tmp_path, config, precision)
    assert (result.attention, len(result.in_place)) == ("fused", 2 * config.layers)
    assert result.peak_bytes < MEMORY_BAR


@pytest.mark.timeout(900)
@pytest.mark.parametrize("grid", [16, 32, 64], ids=["256 px", "512 px", "1024 px"])
def test_two_layers_as_wide_as_ar_dtok_lp(tmp_path: Path, grid: int) -> None:
    config = replace(preset_config("XL", text=True, grid=grid), layers=2, prefix=169)
    assert (config.heads, config.dim, config.ffn) == (20, 1280, 3584)
    result = _build(tmp_path, config, Precision.BF16)
    assert (result.attention, len(result.in_place)) == ("fused", 2 * config.layers)
    assert result.peak_bytes < MEMORY_BAR
