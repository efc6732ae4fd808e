"""Learned upsamplers: graph against reference, row by row, and refused where they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import VOCABULARY, tiny_checkpoints, tiny_options, tiny_sources, vq_tensors
from golden_models import load_graph
from mulo_engines.errors import CheckpointError
from mulo_export.bundle_writer import write_bundle
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.checkpoints.token_upsampler import UpsamplerConfig, convolutions, read_token_upsampler
from mulo_export.checkpoints.vq import read_vq
from mulo_export.codebook import normalised_codebook
from mulo_export.graphs.builder import GraphBuilder
from mulo_export.graphs.token_upsampler import token_upsampler_graph
from mulo_export.graphs.vq import VqScope
from mulo_export.reference.token_upsampler import ReferenceUpsampler
from mulo_export.sources import read_source_upsampler, read_sources
from numpy.typing import NDArray
from safetensors.numpy import save_file


def upsampler_tensors(ratio: int, code_size: int = 4) -> dict[str, NDArray[Any]]:
    rng, tensors = np.random.default_rng(5), {}
    for name, inputs, outputs in convolutions(UpsamplerConfig(ratio, code_size, 8, 2)):
        tensors[f"{name}.weight"] = rng.standard_normal((outputs, inputs, 3, 3), np.float32) / 5
        tensors[f"{name}.bias"] = rng.standard_normal(outputs, np.float32) / 5
    return tensors


@pytest.mark.parametrize("ratio", [2, 4])
def test_candidates_are_those_of_the_reference_and_no_row_sees_those_below(tmp_path: Path, ratio: int) -> None:
    save_file(upsampler_tensors(ratio), tmp_path / "upsampler.safetensors")
    save_file(vq_tensors(np.random.default_rng(0)), tmp_path / "vq.safetensors", {"groups": "4"})
    file, vq = (read_tensor_file(tmp_path / f"{name}.safetensors") for name in ("upsampler", "vq"))
    config = read_token_upsampler(file)
    assert config == UpsamplerConfig(ratio, 4, 8, 2)
    scope = VqScope(GraphBuilder("upsampler"), read_vq(vq), vq, "vq.safetensors")
    graph = token_upsampler_graph(config, file, "upsampler.safetensors", scope)
    tokens = np.random.default_rng(0).integers(VOCABULARY, size=(2, 5, 3))
    with load_graph(graph, tmp_path / "upsampler.onnx") as engine:
        whole, above = (
            engine.run_once({"token_ids": part})["candidate_ids"] for part in (tokens, tokens[:, :2].copy())
        )
    assert whole.shape == (2, 5 * ratio, 3 * ratio)
    assert len(np.unique(whole)) > 5
    np.testing.assert_array_equal(whole, ReferenceUpsampler(config, file, normalised_codebook(vq)).upsample(tokens))
    np.testing.assert_array_equal(whole[:, : 2 * ratio], above)


def test_a_bundle_with_one_passes_the_gate(tmp_path: Path) -> None:
    sources = tiny_sources(tiny_checkpoints(tmp_path))
    save_file(upsampler_tensors(2), tmp_path / "upsampler.safetensors")
    learned = read_source_upsampler(tmp_path / "upsampler.safetensors")
    sources = read_sources(
        sources.drafter, sources.target, sources.vq, tmp_path / "prompt.safetensors", upsampler=learned
    )
    manifest = write_bundle(sources, tiny_options(skip_parity=False), tmp_path / "bundle", lambda _: None)
    (graph,) = (graph for graph in manifest.graphs if graph.name == "upsampler")
    assert "weights/upsampler.safetensors" in graph.weights


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (upsampler_tensors(4), "upsamples by 4, and the models' grids differ by 2"),
        (upsampler_tensors(2, code_size=8), "codes of width 8, those of the VQ tokenizer have 4"),
    ],
)
def test_an_upsampler_of_another_family_is_refused(tmp_path: Path, tensors: dict[str, Any], message: str) -> None:
    sources = tiny_sources(tiny_checkpoints(tmp_path))
    save_file(tensors, tmp_path / "upsampler.safetensors")
    learned = read_source_upsampler(tmp_path / "upsampler.safetensors")
    with pytest.raises(CheckpointError, match=message):
        read_sources(sources.drafter, sources.target, sources.vq, tmp_path / "prompt.safetensors", upsampler=learned)


def test_another_file_is_refused(tmp_path: Path) -> None:
    checkpoints = tiny_checkpoints(tmp_path)
    with pytest.raises(CheckpointError, match="not a learned upsampler"):
        read_source_upsampler(checkpoints.vq)
