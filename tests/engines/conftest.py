"""Small real graphs, and a bundle of one of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mulo_engines.bundle import describe_file
from mulo_engines.manifest import (
    ConditionRecord,
    GraphRecord,
    Manifest,
    ModelRecord,
    ParityRecord,
    PromptRecord,
    ProvenanceRecord,
    write_manifest,
)
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.graphs.builder import GraphBuilder
from mulo_export.graphs.feed import feed_graph
from safetensors.numpy import save_file

FILES = ("feed.onnx", "prompt.safetensors", "weights/drafter.safetensors", "weights/target.safetensors")


@pytest.fixture
def cache_file(tmp_path: Path) -> Path:
    """A graph that writes `update` [B, H, T, 4] into `cache` [B, H, S, 4] at slot `write_index` [B]."""
    graph = GraphBuilder("cache")
    cache = graph.input("cache", "float32", ["B", "H", "S", 4])
    update = graph.input("update", "float32", ["B", "H", "T", 4])
    index = graph.input("write_index", "int64", ["B"])
    graph.op("TensorScatter", cache, update, index, name="cache_out", axis=-2, mode="linear")
    graph.output("cache_out", "cache_out", "float32", ["B", "H", "S", 4])
    path = tmp_path / "cache.onnx"
    graph.save(path)
    return path


@pytest.fixture
def scratch_file(tmp_path: Path) -> Path:
    """A graph y = softmax(softmax(x)) for x [N, 8], with as much scratch memory between the two as y takes."""
    graph = GraphBuilder("scratch")
    scratch = graph.op("Softmax", graph.input("x", "float32", ["N", 8]))
    graph.op("Softmax", scratch, name="y")
    graph.output("y", "y", "float32", ["N", 8])
    path = tmp_path / "scratch.onnx"
    graph.save(path)
    return path


@pytest.fixture
def table_file(tmp_path: Path) -> Path:
    """A graph that looks `index` [N] up in a table [4096, 8] of the numbers from 0 on, kept in table.safetensors."""
    weights = tmp_path / "table.safetensors"
    save_file({"table": np.arange(4096 * 8, dtype=np.float32).reshape(4096, 8)}, weights)
    graph = GraphBuilder("table")
    table = graph.weight(read_tensor_file(weights).tensors["table"], weights.name)
    graph.op("Gather", table, graph.input("index", "int64", ["N"]), name="y", axis=0)
    graph.output("y", "y", "float32", ["N", 8])
    path = tmp_path / "table.onnx"
    graph.save(path)
    return path


@pytest.fixture
def linear_file(tmp_path: Path) -> Path:
    """A graph y = x W^T for x [N, 8], whose weight, the numbers 0 to 31, lies in weights/linear.safetensors."""
    return _write_linear(tmp_path, "weights/linear.safetensors")


@pytest.fixture
def write_linear() -> Callable[[Path, str], Path]:
    """Write the graph of `linear_file` into a folder, but let it look for its weights elsewhere."""
    return _write_linear


def _write_linear(folder: Path, location: str) -> Path:
    weights = folder / "weights/linear.safetensors"
    weights.parent.mkdir(parents=True, exist_ok=True)
    save_file({"w": np.arange(32, dtype=np.float32).reshape(4, 8)}, weights)
    graph = GraphBuilder("linear")
    weight = graph.weight(read_tensor_file(weights).tensors["w"], location)
    graph.op("Gemm", graph.input("x", "float32", ["N", 8]), weight, name="y", transB=1)
    graph.output("y", "y", "float32", ["N", 4])
    path = folder / "linear.onnx"
    graph.save(path)
    return path


@pytest.fixture
def bundle_folder(tmp_path: Path) -> Path:
    """A sealed bundle with a real `feed` graph and weights that nothing reads."""
    folder = tmp_path / "bundle"
    (folder / "weights").mkdir(parents=True)
    feed_graph(guidance=True).save(folder / "feed.onnx")
    for path in FILES[1:]:
        (folder / path).write_bytes(path.encode() * 100)
    write_manifest(make_manifest(folder), folder)
    return folder


def make_manifest(folder: Path) -> Manifest:
    """The manifest of `bundle_folder`."""
    model = ModelRecord(rows=8, cols=8, layers=3, heads=4, head_dim=32, dim=128, cache_dtype="float32")
    return Manifest(
        family="llamagen-t2i",
        precision="float32",
        ratio=2,
        vocabulary=512,
        condition=ConditionRecord(kind="text", length=12, feature_size=27),
        drafter=model,
        target=model.model_copy(update={"rows": 16, "cols": 16}),
        pool_k_max=64,
        pixels_per_token=4,
        rounding="half_up",
        sampling={"temperature": 1.0, "top_k": 0},
        mulo={"threshold": 0.1, "rule": "local", "radius": 1, "anchored": True},
        prompt=PromptRecord(kind="words", file="prompt.safetensors"),
        files=tuple(describe_file(folder, path) for path in FILES),
        graphs=(
            GraphRecord(name="feed", file="feed.onnx"),
            GraphRecord(name="target", file="feed.onnx", weights=("weights/target.safetensors",)),
        ),
        provenance=(ProvenanceRecord(role="drafter", file_name="drafter.safetensors", sha256="0" * 64),),
        parity=(ParityRecord(graph="target", metric="largest difference", value=1e-6, tolerance=1e-4),),
    )


@pytest.fixture
def reseal() -> Callable[[Path, dict[str, Any]], None]:
    """Write `content` as the manifest of a folder with the seal that its format prescribes."""

    def write(folder: Path, content: dict[str, Any]) -> None:
        fields = {name: value for name, value in content.items() if name != "manifest_sha256"}
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        fields["manifest_sha256"] = hashlib.sha256(canonical).hexdigest()
        (folder / "bundle.json").write_text(json.dumps(fields))

    return write
