"""What every engine promises about its buffers, told by ONNX Runtime and the fake one alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mulo_engines.engine import Engine, TensorSpec
from mulo_engines.errors import EngineError, ShapeError
from mulo_engines.fake import FakeEngine
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from numpy.typing import NDArray

Buffers = dict[str, NDArray[Any]]
Change = Callable[[Buffers], None]


def _scatter(buffers: Any) -> None:
    if buffers["cache_out"] is not buffers["cache"]:
        buffers["cache_out"][...] = buffers["cache"]
    for row, start in enumerate(buffers["write_index"]):
        buffers["cache_out"][row, :, start : start + buffers["update"].shape[2]] = buffers["update"][row]


def _fake() -> FakeEngine:
    cache, update = ("B", "H", "S", 4), ("B", "H", "T", 4)
    inputs = [TensorSpec("cache", np.dtype(np.float32), cache), TensorSpec("update", np.dtype(np.float32), update)]
    inputs.append(TensorSpec("write_index", np.dtype(np.int64), ("B",)))
    return FakeEngine("cache", inputs, [TensorSpec("cache_out", np.dtype(np.float32), cache)], _scatter)


@pytest.fixture(params=["onnxruntime", "fake"])
def engine(request: pytest.FixtureRequest, cache_file: Path) -> Iterator[Engine]:
    fake = request.param == "fake"
    with _fake() if fake else OnnxRuntimeEngine.load(cache_file, name="cache", threads=1) as engine:
        yield engine


@pytest.fixture
def buffers() -> Buffers:
    """B = 2, H = 3, S = 8, T = 2, updated in place."""
    cache = np.zeros((2, 3, 8, 4), np.float32)
    update = np.arange(48, dtype=np.float32).reshape(2, 3, 2, 4) + 1
    return {"cache": cache, "update": update, "write_index": np.array([1, 5]), "cache_out": cache}


def test_an_engine_tells_its_inputs_and_outputs(engine: Engine) -> None:
    assert list(engine.inputs) == ["cache", "update", "write_index"]
    assert str(engine.inputs["cache"]) == "float32 [B, H, S, 4]"
    assert engine.outputs["cache_out"].shape == ("B", "H", "S", 4)


def test_a_call_updates_a_cache_in_place(engine: Engine, buffers: Buffers) -> None:
    engine.bind(buffers).run()
    expected = np.zeros((2, 3, 8, 4), np.float32)
    expected[0, :, 1:3], expected[1, :, 5:7] = buffers["update"]
    assert np.array_equal(buffers["cache"], expected)


def test_a_call_sees_what_is_written_into_its_buffers_later(engine: Engine, buffers: Buffers) -> None:
    call = engine.bind(buffers)
    for start in (0, 2, 4, 6):
        buffers["update"][...] = start + 1
        buffers["write_index"][...] = start
        call.run()
    assert np.array_equal(buffers["cache"][1, 2, :, 3], [1, 1, 3, 3, 5, 5, 7, 7])


def test_without_sharing_the_input_stays_as_it_is(engine: Engine, buffers: Buffers) -> None:
    buffers["cache_out"] = np.full_like(buffers["cache"], np.nan)
    engine.bind(buffers).run()
    assert not buffers["cache"].any()
    assert np.isfinite(buffers["cache_out"]).all()
    assert np.array_equal(buffers["cache_out"][0, :, 1:3], buffers["update"][0])


def test_a_call_keeps_its_buffers_alive(engine: Engine, buffers: Buffers) -> None:
    result = buffers["cache"]
    call = engine.bind({**buffers, "update": np.full((2, 3, 2, 4), 7, np.float32), "write_index": np.array([0, 0])})
    del buffers["update"], buffers["write_index"]
    noise = [np.full((2, 3, 2, 4), 9, np.float32) for _ in range(100)]
    call.run()
    assert np.array_equal(np.unique(result), [0, 7])
    assert len(noise) == 100


def test_empty_buffers_are_legal(engine: Engine, buffers: Buffers) -> None:
    before = buffers["cache"].copy()
    engine.bind({**buffers, "update": np.zeros((2, 3, 0, 4), np.float32)}).run()
    assert np.array_equal(buffers["cache"], before)


def test_one_engine_is_bound_to_several_sizes_at_once(engine: Engine, buffers: Buffers) -> None:
    small = engine.bind(buffers)
    large = np.zeros((1, 1, 64, 4), np.float32)
    update = np.ones((1, 1, 5, 4), np.float32)
    big = engine.bind({"cache": large, "update": update, "write_index": np.array([9]), "cache_out": large})
    for call in (small, big, small, big):
        call.run()
    assert np.array_equal(np.nonzero(large[0, 0, :, 0])[0], np.arange(9, 14))
    assert np.array_equal(buffers["cache"][0, :, 1:3], buffers["update"][0])


def test_views_of_a_larger_buffer_are_bound_without_a_copy(engine: Engine, buffers: Buffers) -> None:
    store = np.zeros(1000, np.float32)
    buffers["cache"], buffers["cache_out"] = (store[8 : 8 + 192].reshape(2, 3, 8, 4) for _ in range(2))
    engine.bind(buffers).run()
    assert np.count_nonzero(store) == 48
    assert not store[:8].any()
    assert not store[200:].any()


def test_an_engine_runs_once_on_inputs_alone(engine: Engine, buffers: Buffers) -> None:
    del buffers["cache_out"]
    outputs = engine.run_once(buffers)
    assert list(outputs) == ["cache_out"]
    assert np.array_equal(outputs["cache_out"][1, :, 5:7], buffers["update"][1])
    assert not buffers["cache"].any()


def _set(name: str, make: Callable[[NDArray[Any]], NDArray[Any]]) -> Change:
    def change(buffers: Buffers) -> None:
        buffers[name] = make(buffers[name])

    return change


MISFITS: dict[str, tuple[Change, str]] = {
    "an input is missing": (lambda buffers: buffers.__delitem__("update") or None, "also update"),
    "an output is missing": (lambda buffers: buffers.__delitem__("cache_out") or None, "also cache_out"),
    "a name is unknown": (lambda buffers: buffers.update(other=np.zeros(1)), "found: +other"),
    "the type differs": (_set("update", lambda a: a.astype(np.float64)), r"'update'.*float64.*float32"),
    "the byte order differs": (_set("update", lambda a: a.astype(">f4")), "'update' does not fit"),
    "a fixed size differs": (_set("update", lambda a: a[..., :3].copy()), r"'update'.*\[2, 3, 2, 3\].*\[B, H, T, 4\]"),
    "a dimension is missing": (_set("update", lambda a: a[0].copy()), r"\[3, 2, 4\]"),
    "a dimension is too many": (_set("write_index", lambda a: a[:, None].copy()), r"\[2, 1\].*\[B\]"),
    "a symbol has two sizes": (_set("update", lambda a: a[:1].copy()), r"'update'.*\[1, 3, 2, 4\].*B = 2, H = 3"),
    "the output has another size": (_set("cache_out", lambda a: a[:, :, :7].copy()), r"'cache_out'.*S = 8"),
    "memory is strided": (_set("update", lambda a: np.repeat(a, 2, 2)[:, :, ::2]), "'update' is not C-contiguous"),
    "the output is read-only": (
        _set("cache_out", lambda a: np.broadcast_to(a[:1, :1, :1], a.shape)),
        "read-only|C-con",
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_buffers_that_do_not_fit_are_refused_when(engine: Engine, buffers: Buffers, misfit: str) -> None:
    change, message = MISFITS[misfit]
    change(buffers)
    with pytest.raises(ShapeError, match=rf"(?s)^cache: .*{message}"):
        engine.bind(buffers)


def test_a_read_only_output_is_refused_and_a_read_only_input_is_not(engine: Engine, buffers: Buffers) -> None:
    buffers["update"].flags.writeable = False
    engine.bind(buffers).run()
    buffers["cache"].flags.writeable = False
    with pytest.raises(ShapeError, match="'cache_out' is read-only"):
        engine.bind(buffers)


def test_memory_that_is_written_and_something_else_is_refused(engine: Engine) -> None:
    store = np.zeros(2000, np.float32)

    def view(start: int, slots: int) -> NDArray[np.float32]:
        return store[start : start + 4 * slots].reshape(1, 1, slots, 4)

    index = np.zeros(1, np.int64)
    for cache, output, update in [(0, 4, 500), (4, 0, 500), (0, 0, 8), (0, 100, 100), (0, 100, 112), (0, 100, 98)]:
        buffers = {"cache": view(cache, 8), "cache_out": view(output, 8), "update": view(update, 1)}
        with pytest.raises(ShapeError, match="overlap"):
            engine.bind({**buffers, "write_index": index})
    # Side by side, and inputs over each other, are harmless.
    shared = view(0, 8)
    engine.bind({"cache": shared, "cache_out": view(32, 8), "update": view(4, 1), "write_index": index}).run()
    with pytest.raises(ShapeError, match="'cache', 'cache_out', 'update' overlap"):
        engine.bind({"cache": shared, "cache_out": shared, "update": shared, "write_index": index})


def test_inputs_that_do_not_fit_are_refused_by_a_single_run_too(engine: Engine, buffers: Buffers) -> None:
    with pytest.raises(ShapeError, match="cache_out"):
        engine.run_once(buffers)
    del buffers["cache_out"]
    with pytest.raises(ShapeError, match="'write_index' does not fit"):
        engine.run_once({**buffers, "write_index": np.zeros(3, np.int64)})


def test_a_closed_engine_refuses_everything_and_closes_again(engine: Engine, buffers: Buffers) -> None:
    call = engine.bind(buffers)
    call.run()
    engine.close()
    engine.close()
    before = buffers["cache"].copy()
    inputs = {name: buffers[name] for name in engine.inputs}
    for use in (call.run, call.run, lambda: engine.run_once(inputs), lambda: engine.bind(buffers)):
        with pytest.raises(EngineError, match=r"cache: the engine was closed"):
            use()
    assert np.array_equal(buffers["cache"], before)


def test_the_end_of_a_with_block_closes(engine: Engine, buffers: Buffers) -> None:
    with engine, pytest.raises(ShapeError, match=re.escape("cache: the buffers are not")):
        engine.bind({})
    with pytest.raises(EngineError, match="closed"):
        engine.bind(buffers)
