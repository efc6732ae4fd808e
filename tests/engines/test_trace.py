"""The trace that ONNX Runtime writes is read as the mean time of every layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mulo_engines.errors import EngineError
from mulo_engines.layer_time import LayerTime
from mulo_engines.onnxruntime.trace import read_layer_times


def run(start: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": start, "dur": 90}


def node(name: str, kind: str, start: int, length: int) -> dict[str, Any]:
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": length, "args": {"op_name": kind}}


def write(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text(json.dumps(events))
    return path


def test_layers_are_in_the_order_of_the_pass_with_the_mean_of_all_but_the_first(tmp_path: Path) -> None:
    cold = run(0), node("a", "Gemm", 10, 5000), node("b", "Attention", 20, 5000)
    warm = run(100), node("a", "Gemm", 110, 10), node("b", "Attention", 120, 30)
    later = run(200), node("a", "Gemm", 210, 20), node("b", "Attention", 220, 50)
    times = read_layer_times(write(tmp_path / "trace.json", *later, *cold, *warm))
    assert times == [LayerTime("a", "Gemm", pytest.approx(15e-6)), LayerTime("b", "Attention", pytest.approx(40e-6))]


def test_a_trace_of_one_pass_times_nothing(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"(?s)too few passes.*found: +1"):
        read_layer_times(write(tmp_path / "trace.json", run(0), node("a", "Gemm", 10, 20)))
