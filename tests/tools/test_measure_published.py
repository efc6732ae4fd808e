"""What is measured of exports and drawings, on a bundle that takes no time, and the pairs that are measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_checkpoints, tiny_sources
from mulo_export.precision import Precision
from mulo_export.sources import read_source_tokenizer, read_source_transformer, read_sources
from mulo_runtime import AutoRegressive, MuloSD
from mulo_tools.measure_published import measure_draw, measure_export, random_sources
from mulo_tools.memory_peak import watch_memory
from mulo_tools.synthetic import preset_config, write_random_checkpoint


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    with watch_memory() as before:
        sources = tiny_sources(tiny_checkpoints(folder))
    cost = measure_export(sources, Precision.INT8, folder / "bundle")
    assert cost.bundle_bytes == sum(path.stat().st_size for path in (folder / "bundle").rglob("*") if path.is_file())
    assert cost.seconds > 0
    # A second process and its libraries, and nothing of any size beside what was there.
    assert before.bytes < cost.peak_bytes < before.bytes + 300e6
    return folder / "bundle"


def test_a_model_of_float16_is_exported_and_compared_without_being_widened_as_a_whole(tmp_path: Path) -> None:
    vq = read_source_tokenizer(tiny_checkpoints(tmp_path).vq)
    models = []
    for layers, grid in ((1, 4), (12, 8)):
        config = replace(preset_config("XL", text=True, grid=grid), layers=layers, vocabulary=vq.config.vocabulary)
        write_random_checkpoint(tmp_path / f"{grid}.safetensors", config, sparse=True)
        models.append(read_source_transformer(tmp_path / f"{grid}.safetensors"))
    with watch_memory() as before:
        pass
    cost = measure_export(read_sources(*models, vq), Precision.FP16, tmp_path / "bundle")
    assert sum(record.size for record in models[1].file.tensors.values()) > 950e6
    assert cost.peak_bytes < before.bytes + 450e6


def test_the_first_rows_of_an_image_are_timed_without_the_others(bundle: Path) -> None:
    cost = measure_draw(bundle, AutoRegressive(), threads=1, rows=2)
    assert cost.tokens == 2 * 8
    assert cost.seconds > 0
    assert not cost.phases


def test_a_whole_image_is_timed_by_phases(bundle: Path) -> None:
    cost = measure_draw(bundle, MuloSD(), threads=1)
    assert cost.tokens == 8 * 8
    assert {"draft", "verify"} <= cost.phases.keys()
    assert 0 < sum(cost.phases.values()) < cost.seconds


def test_memory_is_watched_at_its_peak() -> None:
    with watch_memory() as before:
        pass
    with watch_memory() as peak:
        np.ones(200_000_000, np.uint8).sum()
    assert peak.bytes > before.bytes + 150_000_000


def test_the_published_pair_of_tar_is_what_its_exporter_takes(tmp_path: Path) -> None:
    sources = random_sources("tar", "", tmp_path, sparse=True)
    assert [model.config.grid for model in (sources.drafter, sources.target)] == [16, 32]
    parameters = sum(record.size // 4 for record in sources.drafter.file.tensors.values())
    assert parameters == 654_241_280
    assert sources.ta_tok is not None
