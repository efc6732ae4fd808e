"""Checkpoints of the published sizes, and graphs of models that no test could hold in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.graphs.condition import condition_graph
from mulo_export.graphs.transformer import transformer_graph
from mulo_tools.synthetic import PRESETS, preset_config, write_random_checkpoint

# (class-conditional, text-conditional, tensors of the former), counted from the authors' own classes.
PARAMETERS = {
    "B": (110_888_448, 112_528_128, 88),
    "L": (342_910_976, 345_277_440, 172),
    "XL": (774_699_520, 777_923_840, 256),
    "XXL": (1_410_972_672, 1_415_185_920, 340),
    "XXXL": (3_893_027_840, 3_902_507_520, 340),
    "1B": (1_199_616_000, 1_206_200_320, 158),
    "3B": (3_096_659_200, 3_110_495_360, 172),
    "7B": (6_614_589_440, 6_635_900_928, 228),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_the_published_number_of_parameters(preset: str, tmp_path: Path) -> None:
    by_class, by_text, tensors = PARAMETERS[preset]
    for text, parameters in ((False, by_class), (True, by_text)):
        path = tmp_path / f"{text}.safetensors"
        write_random_checkpoint(path, preset_config(preset, text=text, grid=32), sparse=True)
        file = read_tensor_file(path)
        assert sum(record.size // 4 for record in file.tensors.values()) == parameters
        assert len(file.tensors) == tensors + 2 * text


@pytest.mark.parametrize("preset", ["XL", "7B"])
def test_graphs_of_large_models_are_declared_without_touching_a_weight(preset: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write_random_checkpoint(path, preset_config(preset, text=True, grid=32), sparse=True)
    blocks = path.stat().st_blocks
    file = read_tensor_file(path)
    graphs = [build(read_transformer(file), file, path.name) for build in (transformer_graph, condition_graph)]
    assert sum(graph.model().ByteSize() for graph in graphs) < 2**21
    assert path.stat().st_blocks == blocks < 256 < path.stat().st_size / 2**20


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_random_weights_are_finite_scaled_by_their_fan_in_and_the_same_for_a_seed(dtype: str, tmp_path: Path) -> None:
    config = replace(preset_config("B", text=True, grid=16), layers=1, vocabulary=512)
    for name in ("once", "again"):
        write_random_checkpoint(tmp_path / name, config, dtype=dtype)
    assert (tmp_path / "once").read_bytes() == (tmp_path / "again").read_bytes()
    file = read_tensor_file(tmp_path / "once")
    assert {record.dtype for record in file.tensors.values()} == {dtype}
    assert np.array_equal(file.array("norm.weight"), np.ones(768))
    deviation = file.array("layers.0.feed_forward.w2.weight").astype(np.float64).std()
    assert deviation == pytest.approx(2048**-0.5, rel=0.01)
