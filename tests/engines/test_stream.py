"""Arrays in the memory of a device, and a device that puts everything off."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_engines.deferred import DeferredEngine, DeferredStream
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import ShapeError
from mulo_engines.fake import FakeEngine
from mulo_engines.stream import DeviceArray

INT = np.dtype(np.int64)


@pytest.fixture
def stream() -> DeferredStream:
    return DeferredStream()


def read(stream: DeferredStream, array: DeviceArray) -> np.ndarray:
    result, mark = np.full(array.shape, 77, array.dtype), stream.mark()
    stream.read(result, array)
    mark.set()
    mark.wait()
    return result


def test_a_part_of_an_array_is_its_memory_seen_otherwise(stream: DeferredStream) -> None:
    array = stream.zeros((2, 3), INT)
    stream.upload(array, np.arange(6).reshape(2, 3))
    part = array.part((2,), offset=8)
    assert (part.address, part.nbytes, part.size, part.ndim) == (array.address + 8, 16, 2, 1)
    assert read(stream, part).tolist() == [1, 2]
    assert read(stream, array.part((4,), dtype=np.dtype(np.uint8), offset=16)).tolist() == [2, 0, 0, 0]


def test_a_part_beyond_the_end_is_refused(stream: DeferredStream) -> None:
    with pytest.raises(ValueError, match="24 bytes at 32 reach beyond an array of 48 bytes"):
        stream.zeros((6,), INT).part((3,), offset=32)


def test_nothing_is_done_before_it_is_waited_for_and_then_no_more_than_must_be(stream: DeferredStream) -> None:
    first, second, mark = stream.zeros((1,), INT), stream.zeros((1,), INT), stream.mark()
    seen = np.zeros(2, np.int64)
    stream.upload(first, np.array([5]))
    stream.read(seen[:1], first)
    mark.set()
    stream.copy(second, first)
    stream.read(seen[1:], second)
    assert seen.tolist() == [0, 0]
    mark.wait()
    assert seen.tolist() == [5, 0]
    stream.close()
    assert seen.tolist() == [5, 5]


def test_memory_that_is_overwritten_too_early_goes_up_as_it_is_then(stream: DeferredStream) -> None:
    array, source = stream.zeros((1,), INT), np.array([1])
    stream.upload(array, source)
    source[0] = 2
    assert read(stream, array).tolist() == [2]


def test_clearing_waits_for_its_turn(stream: DeferredStream) -> None:
    array = stream.zeros((2,), INT)
    stream.upload(array, np.array([1, 2]))
    stream.clear(array.part((1,)))
    assert read(stream, array).tolist() == [0, 2]


def doubling() -> FakeEngine:
    def double(arrays: dict[str, np.ndarray]) -> None:
        arrays["y"][...] = 2 * arrays["x"]

    return FakeEngine("double", [TensorSpec("x", INT, ("n",))], [TensorSpec("y", INT, ("n",))], double)


def test_an_engine_of_the_device_runs_in_its_turn(stream: DeferredStream) -> None:
    x, y = stream.zeros((2,), INT), stream.zeros((2,), INT)
    engine = DeferredEngine(doubling())
    call = engine.bind({"x": x, "y": y})
    stream.upload(x, np.array([3, 4]))
    call.run()
    stream.clear(x)
    assert read(stream, y).tolist() == [6, 8]
    assert engine.run_once({"x": np.array([1])})["y"].tolist() == [2]


def test_memory_of_the_host_is_no_buffer_of_a_device_nor_the_other_way_round(stream: DeferredStream) -> None:
    host, device = np.zeros(2, np.int64), stream.zeros((2,), INT)
    with pytest.raises(ShapeError, match=r"(?s)'x', 'y'.*expected: the device's memory"):
        DeferredEngine(doubling()).bind({"x": host, "y": device})
    with pytest.raises(ShapeError, match=r"(?s)'y'.*expected: the host's memory"):
        doubling().bind({"x": host, "y": device})
    with pytest.raises(ShapeError, match="all of one stream"):
        DeferredEngine(doubling()).bind({"x": DeferredStream().zeros((2,), INT), "y": device})
