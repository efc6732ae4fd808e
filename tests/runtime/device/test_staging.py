"""Pinned memory on the way up is not overwritten before the device has read it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mulo_engines.deferred import DeferredStream
from mulo_engines.stream import Mark
from mulo_runtime.device.results import Results
from mulo_runtime.device.staging import ALIGNMENT, RUN_AHEAD, Staging, aligned
from mulo_runtime.meter import Meter


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40))
def test_what_arrives_is_what_was_written_however_late_it_is_read(sizes: list[int]) -> None:
    stream = DeferredStream()
    staging = Staging(stream, 2 * aligned(1000), lambda mark: mark.wait())
    arrays = [stream.zeros((size,), np.dtype(np.uint8)) for size in sizes]
    for number, array in enumerate(arrays):
        part = staging.take(array.nbytes)
        part[:] = number % 251
        stream.upload(array, part)
        staging.commit()
    stream.close()
    for number, array in enumerate(arrays):
        assert set(array.memory.tolist()) == {number % 251}


def test_the_host_is_eight_passes_ahead_at_the_most() -> None:
    stream, waits = DeferredStream(), list[Mark]()

    def wait(mark: Mark) -> None:
        waits.append(mark)
        mark.wait()

    staging = Staging(stream, 2**20, wait)
    for _ in range(RUN_AHEAD):
        staging.take(8)
        staging.commit()
    assert not waits
    staging.take(8)
    assert len(waits) == 1


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, ALIGNMENT), (ALIGNMENT, ALIGNMENT), (257, 512)])
def test_parts_are_aligned(size: int, expected: int) -> None:
    assert aligned(size) == expected


def test_results_are_kept_until_the_next_are_read_and_waiting_is_booked() -> None:
    stream, meter = DeferredStream(), Meter()
    results = Results(stream, 4096, meter)
    arrays = [stream.zeros((3,), np.dtype(np.int64)) for _ in range(2)]
    for number, array in enumerate(arrays):
        stream.upload(array, np.full(3, number + 1))
    first, second = (results.read(array) for array in arrays)
    results.wait()
    assert (first.tolist(), second.tolist()) == ([1, 1, 1], [2, 2, 2])
    assert meter.by_engine()["device"].read_backs == 1
    assert results.read(arrays[1]).ctypes.data == first.ctypes.data
