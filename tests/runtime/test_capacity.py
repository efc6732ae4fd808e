"""A lane's buffers are as large as its methods need, and as the memory plan says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundles import tiny_bundle
from mulo_engines import backend
from mulo_engines.errors import OutOfMemory, RequestError
from mulo_runtime import AutoRegressive, MuloSD, Pipeline, Speculative, ZipAR, engine_loading
from mulo_runtime.capacity import drafter_slots, lane_memory, target_slots
from pipelines import MakePipeline, request

REJECT_ALL = 2.0


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("method", [AutoRegressive(), MuloSD(), MuloSD(refresh="none")], ids=str)
def test_the_memory_plan_is_what_the_lanes_allocate(
    shared_bundle: Callable[..., Path], images: int, method: Any
) -> None:
    with Pipeline.open(shared_bundle(), threads=1, images=images, methods=[method]) as opened:
        held = (AutoRegressive(), ZipAR(), method)
        plan = lane_memory(opened.bundle.manifest, held, images=images)
        buffers = {name: size for name, size in plan.parts.items() if not name.startswith("weights/")}
        scalars = 28
        assert sum(buffers.values()) == opened._pool._free[0].nbytes + scalars


@pytest.mark.parametrize(
    "method",
    [
        ZipAR(1),
        MuloSD(tau=REJECT_ALL),
        MuloSD(tau=REJECT_ALL, refresh="none", islands="serial"),
        MuloSD(tau=0.1, radius=None, refresh="dirty", window=1),
        MuloSD(tau=REJECT_ALL, draft="rows"),
    ],
    ids=str,
)
def test_no_method_fills_more_slots_than_planned(open_pipeline: MakePipeline, method: Any) -> None:
    opened = open_pipeline()
    lane = opened._pool._free[0]
    opened.generate(request(0, method))
    prefix = opened.bundle.manifest.condition.length
    assert lane.target._cursor[0] - prefix <= target_slots(method, lane.grid, lane.ratio)
    if isinstance(method, MuloSD):
        assert lane.drafter._cursor[0] - prefix <= drafter_slots(method, lane.draft_grid)


def test_a_bundle_that_does_not_fit_is_refused_with_the_sum_before_anything_is_loaded(
    shared_bundle: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "available_memory", lambda: 1000)
    monkeypatch.setattr(engine_loading, "needed_graphs", None)
    with pytest.raises(OutOfMemory, match=r"(?s)target caches.*total"):
        Pipeline.open(shared_bundle())


@pytest.mark.parametrize("tree", [{"tree_nodes": 500}, {"tree_width": 500}])
def test_a_tree_of_more_tokens_than_a_graph_takes_is_refused_before_anything_is_loaded(
    tmp_path: Path, tree: dict[str, int]
) -> None:
    bundle, method = tiny_bundle(tmp_path, eagle=True), Speculative(tree="dynamic", **tree)
    with pytest.raises(RequestError, match="more tokens in a pass than the model takes"):
        Pipeline.open(bundle, threads=1, methods=[method])
