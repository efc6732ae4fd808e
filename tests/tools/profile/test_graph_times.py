"""Every graph of a bundle is timed at every size that the loop uses, on the engines that the loop uses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import MakeBundle
from mulo_engines.backend import Backend
from mulo_engines.backends import open_backend
from mulo_engines.buckets import query_buckets
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineUnavailable
from mulo_engines.fake import FakeEngine
from mulo_engines.signature import graph_signature
from mulo_tools.blank_buffers import blank_buffers
from mulo_tools.profile.cases import PROFILED_GRAPHS, cases_of, extremes
from mulo_tools.profile.graph_times import Timing, time_graph
from mulo_tools.profile.latency import Budget
from mulo_tools.profile.layers import by_kind, time_layers
from mulo_tools.profile.polygraphy_runner import polygraphy_latency

BRIEF = Budget(runs=3, seconds=0)


@pytest.fixture
def bundle(shared_bundle: MakeBundle) -> Bundle:
    return Bundle.open(shared_bundle())


@pytest.fixture
def backend() -> Backend:
    return open_backend("onnxruntime", threads=1)


@pytest.mark.parametrize("graph", PROFILED_GRAPHS)
def test_a_graph_runs_at_each_of_its_sizes(bundle: Bundle, backend: Backend, graph: str) -> None:
    times = time_graph(bundle, backend, graph, Timing(BRIEF, queries=16, other=polygraphy_latency))
    labels = [time.case.label for time in times]
    assert len(set(labels)) == len(labels) >= 1
    for time in times:
        assert time.load > 0
        assert time.other is not None
        assert (len(time.bound.warm), len(time.other.warm)) == (3, 3)
        assert time.cost.bytes > 0


@pytest.mark.parametrize("text", [True, False])
def test_transformers_are_timed_with_their_condition_and_every_bucket_with_guidance_and_without(
    shared_bundle: MakeBundle, backend: Backend, text: bool
) -> None:
    bundle = Bundle.open(shared_bundle(text=text))
    with backend.load(bundle, "target") as engine:
        cases = cases_of(bundle.manifest, engine, queries=100)
    prefix = bundle.manifest.condition.length
    for batch in (2, 1):
        own = [case.sizes for case in cases if case.sizes["B"] == batch]
        assert [(sizes["C"], sizes["Q"], sizes["R"]) for sizes in own] == [
            (prefix, 0, 1),
            *((0, bucket, bucket) for bucket in query_buckets(64)),
        ]
        assert all(prefix + 64 + 64 <= sizes["S"] for sizes in own)


def test_a_compiled_cache_has_the_length_that_it_has(bundle: Bundle) -> None:
    inputs, outputs = graph_signature(bundle.manifest, "target")
    fixed = [replace(spec, shape=tuple(208 if size == "S" else size for size in spec.shape)) for spec in inputs]
    cases = cases_of(bundle.manifest, FakeEngine("target", fixed, outputs), queries=16)
    assert {case.sizes["S"] for case in cases} == {208}


def test_a_bound_call_updates_the_cache_in_place_and_polygraphys_runner_does_not(
    bundle: Bundle, backend: Backend
) -> None:
    with backend.load(bundle, "target") as engine:
        sizes = cases_of(bundle.manifest, engine, queries=4)[1].sizes
        buffers = blank_buffers(graph_signature(bundle.manifest, "target"), sizes)
        before = buffers["k_cache.0"].copy()
        polygraphy_latency(engine, buffers, BRIEF)
        np.testing.assert_array_equal(buffers["k_cache.0"], before)
        engine.bind(buffers).run()
    assert (buffers["k_cache.0"][:, :, 0] != before[:, :, 0]).any()
    np.testing.assert_array_equal(buffers["k_cache.0"][:, :, 1:], before[:, :, 1:])


def test_polygraphys_runner_is_left_out_where_it_cannot_take_the_engine() -> None:
    assert polygraphy_latency(FakeEngine("target", [], []), {}, BRIEF) is None


@pytest.mark.parametrize("graph", ["target", "decoder"])
def test_layers_are_told_for_the_smallest_and_the_largest_size(bundle: Bundle, backend: Backend, graph: str) -> None:
    with backend.load(bundle, graph) as engine:
        cases = extremes(cases_of(bundle.manifest, engine, queries=16), graph)
    assert [case.label for case in cases] == {"target": ["T 1, B 2", "T 16, B 2"], "decoder": ["one image"]}[graph]
    layers = time_layers(bundle, backend, cases[0]).layers
    kinds = by_kind(layers)
    assert {"target": "TensorScatter", "decoder": "Conv"}[graph] in kinds
    assert sum(kinds.values()) == pytest.approx(sum(layer.seconds for layer in layers))
    assert list(kinds.values()) == sorted(kinds.values(), reverse=True)


class _Silent(Backend):
    """A backend that can do nothing beyond what every backend must."""

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        raise NotImplementedError


def test_a_backend_that_tells_nothing_of_layers_or_loads_no_lone_graph_says_so(bundle: Bundle) -> None:
    with pytest.raises(EngineUnavailable, match="'target'"):
        _Silent().layer_times(bundle, "target", lambda _: None)
    with pytest.raises(EngineUnavailable, match="compiled"):
        _Silent().load_file(bundle.path / "target.onnx", "target")
