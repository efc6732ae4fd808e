"""NVIDIA's own parser and builder, on small graphs: what is built, how, and what is refused with which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import BuildError, EngineMismatch
from mulo_engines.signature import Signature
from mulo_engines.tensorrt.profiles import Range
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.graphs.builder import GraphBuilder
from safetensors.numpy import save_file
from tensorrt_graphs import attention_graph, build

STEP: dict[str, Range] = {"B": (1, 2, 2), "T": (4, 4, 4)}
ROWS: dict[str, Range] = {"N": (1, 2, 4)}
VOCABULARY = 16384

Declare = Callable[[], GraphBuilder]


@pytest.mark.parametrize(
    ("dtype", "attention"), [("float32", "decomposed"), ("float16", "fused"), ("bfloat16", "fused")]
)
def test_attention_is_one_kernel_where_there_is_one_and_several_elsewhere(
    tmp_path: Path, dtype: str, attention: str
) -> None:
    result = build(attention_graph(dtype), tmp_path, STEP)
    assert result.attention == attention
    assert result.in_place == {"k_cache.0": "k_cache_out.0"}
    assert (tmp_path / "graph.plan").stat().st_size > 0
    assert result.seconds > 0
    assert result.peak_bytes > 2**20


def test_the_estimate_of_activations_holds_the_scores_of_an_attention_before_and_after_the_softmax(
    tmp_path: Path,
) -> None:
    rows, queries, slots, head_dim, width = 2 * 2, 4, 32, 64, 4
    scores, query, keys = (rows * size * width for size in (queries * slots, queries * head_dim, slots * head_dim))
    estimate = build(attention_graph("float32"), tmp_path, STEP).activation_bytes
    # The parser scales both the query and the keys, the latter for each of its two readers.
    assert 2 * scores <= estimate <= 2 * scores + 2 * query + 2 * keys


def test_an_input_that_the_parser_drops_without_a_word_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)dropped inputs without a word.*found:    valid_slots"):
        build(attention_graph("float16", valid=True), tmp_path, STEP)
    assert not (tmp_path / "graph.plan").exists()


def test_a_shape_that_depends_on_an_inputs_values_stops_the_build(tmp_path: Path) -> None:
    graph = GraphBuilder("graph")
    shape = graph.input("shape", "int64", [2])
    y = graph.op("Reshape", graph.input("x", "float32", ["N", 8]), shape, name="y")
    graph.output("y", y, "float32", ["P", "Q"])
    with pytest.raises(BuildError, match=r"(?s)in the host's memory.*found:    shape"):
        build(graph, tmp_path, ROWS)


def test_types_are_compared_with_the_manifest_before_anything_is_built(tmp_path: Path) -> None:
    graph = GraphBuilder("graph")
    graph.output("y", graph.op("Relu", graph.input("x", "float32", ["N"]), name="y"), "float32", ["N"])
    x, y = (TensorSpec(name, np.dtype(np.float16), ("N",)) for name in "xy")
    with pytest.raises(EngineMismatch, match=r"(?s)found:    x float32.*expected: x float16"):
        build(graph, tmp_path, ROWS, Signature((x,), (y,)))


def test_weights_are_read_where_they_lie_beside_the_graph(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    save_file({"w": np.ones((256, 256), np.float32)}, weights)
    graph = GraphBuilder("linear")
    x = graph.input("x", "float32", ["N", 256])
    weight = graph.weight(read_tensor_file(weights).tensors["w"], weights.name)
    graph.output("y", graph.op("Gemm", x, weight, name="y", transB=1), "float32", ["N", 256])
    build(graph, tmp_path, ROWS)
    assert (tmp_path / "graph.plan").stat().st_size > weights.stat().st_size
    weights.unlink()
    with pytest.raises(BuildError, match="Failed to import initializer: w"):
        build(graph, tmp_path, ROWS)


def _top_k(count: int) -> GraphBuilder:
    graph = GraphBuilder("top")
    scores = graph.input("scores", "float32", ["N", VOCABULARY])
    values, _ = graph.multi("TopK", scores, graph.constant([count], "int64"), names=["values", "places"], axis=-1)
    graph.output("values", values, "float32", ["N", count])
    return graph


def test_the_longest_sort_that_a_sampler_may_ask_for_is_built(tmp_path: Path) -> None:
    assert build(_top_k(3840), tmp_path, ROWS).attention == "none"


def _no_zero() -> GraphBuilder:
    graph = GraphBuilder("places")
    graph.output("y", graph.op("NonZero", graph.input("x", "float32", ["N"]), name="y"), "int64", [1, "P"])
    return graph


def _multinomial() -> GraphBuilder:
    graph = GraphBuilder("draw")
    drawn = graph.op("Multinomial", graph.input("x", "float32", ["N", 8]), name="y", dtype=7)
    graph.output("y", drawn, "int64", ["N", 1])
    return graph


def _antialiased() -> GraphBuilder:
    graph = GraphBuilder("resize")
    scales = graph.constant([1, 1, 0.5, 0.5], "float32")
    image = graph.input("x", "float32", ["N", 3, 8, 8])
    small = graph.op("Resize", image, None, scales, name="y", mode="cubic", antialias=1)
    graph.output("y", small, "float32", ["N", 3, 4, 4])
    return graph


def _added() -> GraphBuilder:
    graph = GraphBuilder("add")
    data, index = graph.input("x", "float32", ["N", 8]), graph.constant(np.zeros((1, 1)), "int64")
    added = graph.op("ScatterElements", data, index, graph.constant([[1.0]], "float32"), name="y", reduction="add")
    graph.output("y", added, "float32", ["N", 8])
    return graph


def _growing_cache() -> GraphBuilder:
    return attention_graph("float16", slots="S")


def _circular_cache() -> GraphBuilder:
    graph = GraphBuilder("ring")
    cache, update = graph.input("k_cache.0", "float16", ["B", 2, 8, 64]), graph.input("u", "float16", ["B", 2, "T", 64])
    index = graph.input("write_index", "int64", ["B"])
    whole = graph.op("TensorScatter", cache, update, index, name="k_cache_out.0", axis=-2, mode="circular")
    graph.output("k_cache_out.0", whole, "float16", ["B", 2, 8, 64])
    return graph


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: _top_k(3841), "exceeds the maximum value allowed .3840"),
        (_no_zero, "NonZero"),
        (_multinomial, "Multinomial"),
        (_antialiased, "Antialiasing"),
        (_added, "reduction"),
        (_growing_cache, "static sequence length"),
        (_circular_cache, "Only linear mode"),
    ],
    ids=["long sort", "NonZero", "Multinomial", "antialiasing", "scatter and add", "growing cache", "circular cache"],
)
def test_what_the_graphs_avoid_is_refused_with_the_reason(tmp_path: Path, declare: Declare, words: str) -> None:
    sizes = {**ROWS, **STEP, "S": (32, 32, 32)}
    with pytest.raises(BuildError, match=words):
        build(declare(), tmp_path, sizes)
