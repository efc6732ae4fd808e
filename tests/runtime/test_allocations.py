"""After warm-up a pass allocates nothing of note."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from mulo_runtime import GSD, SJD, AutoRegressive, MuloSD, Speculative, ZipAR
from mulo_runtime.model import CachedModel
from pipelines import MakePipeline, request

LIMIT = 64 * 1024
Watch = Callable[..., list[int]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """`watch(extra)` returns a list that grows by the bytes that each pass allocates at once, `extra()` included."""

    def start(extra: Callable[[], Any] = lambda: None) -> list[int]:
        peaks: list[int] = []

        def watched(run: Callable[..., Any]) -> Callable[..., Any]:
            def run_and_measure(*args: Any, **kwargs: Any) -> Any:
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                result = run(*args, **kwargs)
                extra()
                peaks.append(tracemalloc.get_traced_memory()[1] - before)
                return result

            return run_and_measure

        for name in ("feed", "step"):
            monkeypatch.setattr(CachedModel, name, watched(getattr(CachedModel, name)))
        tracemalloc.start()
        return peaks

    yield start
    tracemalloc.stop()


@pytest.mark.parametrize(
    "method",
    [AutoRegressive(), ZipAR(2), MuloSD(pool_k=4), MuloSD(pool_k=4, rows_per_round=0), MuloSD(pool_k=4, draft="rows")],
    ids=str,
)
def test_no_pass_allocates_64_kib_after_warm_up(open_pipeline: MakePipeline, watch: Watch, method: Any) -> None:
    opened = open_pipeline(ratio=4)
    opened.generate(request(1, method))
    peaks = watch()
    opened.generate(request(1, method))
    assert 0 < max(peaks) < LIMIT


@pytest.mark.parametrize("method", [SJD(8), GSD(8, group_k=4), Speculative()], ids=str)
def test_nor_does_a_pass_that_tells_distributions(open_pipeline: MakePipeline, watch: Watch, method: Any) -> None:
    opened = open_pipeline(ratio=4, methods=[method])
    opened.generate(request(1, method))
    peaks = watch()
    opened.generate(request(1, method))
    assert 0 < max(peaks) < LIMIT


def test_an_allocation_of_64_kib_would_be_seen(open_pipeline: MakePipeline, watch: Watch) -> None:
    opened = open_pipeline(ratio=4)
    peaks = watch(lambda: np.zeros(LIMIT, np.uint8))
    opened.generate(request(1, AutoRegressive()))
    assert min(peaks) >= LIMIT
