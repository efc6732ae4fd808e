from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mulo_engines.errors import EngineMismatch
from mulo_engines.manifest import read_manifest
from mulo_export.check import check_graphs
from mulo_export.graphs.builder import GraphBuilder


@pytest.fixture
def bundle(shared_bundle: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(shared_bundle(), tmp_path / "bundle"))


def _decoder(dims: list[int | str], *, dtype: str = "uint8", name: str = "image") -> GraphBuilder:
    """A graph with the decoder's input and one output."""
    graph = GraphBuilder("decoder")
    tokens = graph.input("token_ids", "int64", ["N", "rows", "cols"])
    image = graph.op("Expand", graph.constant(0, dtype), graph.constant([1, 16, 16, 3], "int64"))
    graph.op("Identity", tokens)
    graph.output(name, image, dtype, dims)
    return graph


def test_the_graphs_of_a_bundle_pass(bundle: Path) -> None:
    check_graphs(bundle, read_manifest(bundle / "bundle.json"))


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (_decoder([1, 16, 16, 3]), r"image is uint8 \[1, 16, 16, 3\]"),
        (_decoder(["N", "H", "W", "C"]), r"image is uint8 \['N', 'H', 'W', 'C'\], expected"),
        (_decoder(["N", "H", "W"]), "differ in rank"),
        (_decoder(["N", "H", "W", 3], dtype="float32"), "image is float32"),
        (_decoder(["N", "H", "W", 3], name="picture"), "picture is not part of it; image is missing"),
    ],
)
def test_a_dimension_type_or_name_that_the_contract_does_not_have_is_refused(
    bundle: Path, graph: GraphBuilder, words: str
) -> None:
    graph.save(bundle / "decoder.onnx")
    with pytest.raises(EngineMismatch, match=words):
        check_graphs(bundle, read_manifest(bundle / "bundle.json"))


def test_a_node_that_onnx_does_not_know_is_refused(bundle: Path) -> None:
    graph = GraphBuilder("decoder")
    image = graph.op("Paint", graph.input("token_ids", "int64", ["N", "rows", "cols"]))
    graph.output("image", image, "uint8", ["N", "H", "W", 3])
    graph.save(bundle / "decoder.onnx")
    with pytest.raises(EngineMismatch, match=r"decoder\.onnx: not a valid ONNX model(.|\n)*Paint"):
        check_graphs(bundle, read_manifest(bundle / "bundle.json"))
