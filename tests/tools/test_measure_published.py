"""Exports at a published size, with their parity check: what they need is not the size of the weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from mulo_export.precision import Precision
from mulo_tools.measure_published import measure_export, random_sources


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.INT8])
def test_a_pair_of_900_megabytes_is_exported_in_less_memory_than_it_has(tmp_path: Path, precision: Precision) -> None:
    sources = random_sources("llamagen", "B", tmp_path, sparse=True)
    cost = measure_export(sources, precision, tmp_path / "bundle")
    files = sources.drafter.file, sources.target.file
    weights = sum(record.size for file in files for record in file.tensors.values())
    assert weights > 900_000_000
    assert cost.peak_bytes < 900_000_000
    assert cost.bundle_bytes > (weights if precision is Precision.FP32 else weights / 4)
