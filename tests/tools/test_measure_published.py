from __future__ import annotations

from pathlib import Path

from mulo_tools.measure_export import measure_export


def test_the_graphs_of_775_million_parameters_need_less_than_300_megabytes(tmp_path: Path) -> None:
    cost = measure_export("XL", tmp_path)
    assert cost.parameters > 770_000_000
    assert 0 < cost.peak_bytes < 300_000_000
    assert cost.graph_bytes < 32 * 2**20
