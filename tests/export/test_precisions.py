from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_bundle, tiny_checkpoints, tiny_options, tiny_sources, transformer_tensors
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.errors import CheckpointError, EngineMismatch
from mulo_export.bundle_writer import write_bundle
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.sizes import weight_bytes
from mulo_export.sources import Sources
from safetensors.numpy import load_file, save_file

_RUNNABLE = [precision for precision in Precision if precision is not Precision.BF16]


def _wide_sources(directory: Path) -> Sources:
    """Tiny checkpoints but for their linear layers, which outweigh everything else."""
    checkpoints = tiny_checkpoints(directory)
    for path, grid in ((checkpoints.drafter, "4"), (checkpoints.target, "8")):
        save_file(transformer_tensors(np.random.default_rng(0), dim=128, ffn=512), path, {"n_head": "2", "grid": grid})
    return tiny_sources(checkpoints)


@pytest.mark.parametrize("precision", list(Precision))
def test_every_precision_passes_its_parity_gate(tmp_path: Path, precision: Precision) -> None:
    manifest = Bundle.open(tiny_bundle(tmp_path, precision=precision, skip_parity=False)).manifest
    assert manifest.precision == precision
    logits = [record for record in manifest.parity if record.metric == "relative error of logits"]
    assert [record.graph for record in logits] == ["drafter", "target"]
    for record in logits:
        assert 0 < record.value <= record.tolerance == PRECISIONS[precision].tolerance


@pytest.mark.parametrize("precision", _RUNNABLE)
@pytest.mark.parametrize("text", [True, False])
def test_every_graph_of_a_precision_loads_on_the_cpu(tmp_path: Path, precision: Precision, text: bool) -> None:
    bundle = Bundle.open(tiny_bundle(tmp_path, precision=precision, text=text))
    backend = open_backend("onnxruntime", threads=1)
    for graph in bundle.manifest.graphs:
        backend.load(bundle, graph.name).close()


def test_a_bfloat16_bundle_is_refused_on_the_cpu_with_the_reason(tmp_path: Path) -> None:
    bundle = Bundle.open(tiny_bundle(tmp_path, precision=Precision.BF16))
    with pytest.raises(EngineMismatch, match=r"bfloat16(.|\n)*--precision"):
        open_backend("onnxruntime", threads=1).load(bundle, "sampler")


@pytest.mark.parametrize(("precision", "dtype"), [(Precision.FP16, "F16"), (Precision.BF16, "BF16")])
def test_half_precisions_rewrite_the_transformers_and_leave_the_tokenizer(
    tmp_path: Path, precision: Precision, dtype: str
) -> None:
    bundle = tiny_bundle(tmp_path, precision=precision)
    for role in ("drafter", "target"):
        records = read_tensor_file(bundle / "weights" / f"{role}.safetensors").tensors.values()
        assert {record.dtype for record in records} == {dtype}
    assert (bundle / "weights" / "vq.safetensors").read_bytes() == (tmp_path / "vq.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("precision", "share"),
    [
        (Precision.INT8, 0.35),
        (Precision.INT4, 0.3),
        (Precision.FP8, 0.3),
        (Precision.INT8_TENSORRT, 0.3),
        (Precision.INT4_TENSORRT, 0.2),
    ],
)
def test_quantised_weights_leave_the_float_ones_out_of_the_bundle(
    tmp_path: Path, precision: Precision, share: float
) -> None:
    sources = _wide_sources(tmp_path)
    write_bundle(sources, tiny_options(precision=precision), tmp_path / "bundle", lambda _: None)
    for role in ("drafter", "target"):
        weights = tmp_path / "bundle" / "weights" / f"{role}.safetensors"
        assert weights.stat().st_size < share * (tmp_path / f"{role}.safetensors").stat().st_size


@pytest.mark.parametrize("precision", list(Precision))
def test_the_dry_run_knows_the_bytes_of_the_weights(tmp_path: Path, precision: Precision) -> None:
    sources = _wide_sources(tmp_path)
    planned = weight_bytes(sources, precision)
    write_bundle(sources, tiny_options(precision=precision), tmp_path / "bundle", lambda _: None)
    for role, size in planned.items():
        records = read_tensor_file(tmp_path / "bundle" / "weights" / f"{role}.safetensors").tensors.values()
        written = sum(record.size for record in records if not record.name.startswith("constant_"))
        # The scales of 8-bit weights are not counted, nor are small ones of 4-bit weights, which stay in the graph.
        assert size == pytest.approx(written, rel=0.05 if PRECISIONS[precision].quantized else 0)


def test_a_checkpoint_of_the_asked_type_is_copied_byte_for_byte(tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path)
    for role in ("drafter", "target"):
        copy = bundle / "weights" / f"{role}.safetensors"
        assert copy.read_bytes() == (tmp_path / f"{role}.safetensors").read_bytes()


def test_a_weight_too_large_for_float16_is_refused(tmp_path: Path) -> None:
    checkpoints = tiny_checkpoints(tmp_path)
    tensors = load_file(checkpoints.target)
    tensors["output.weight"][0, 0] = 1e5
    save_file(tensors, checkpoints.target, {"n_head": "2", "grid": "8"})
    sources = tiny_sources(checkpoints)
    options = tiny_options(precision=Precision.FP16)
    with pytest.raises(CheckpointError, match=r"output\.weight"):
        write_bundle(sources, options, tmp_path / "bundle", lambda _: None)
    assert not (tmp_path / "bundle").exists()
