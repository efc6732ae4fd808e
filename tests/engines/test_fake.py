"""The fake engine: it records what it saw and fails when it is told to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mulo_engines.engine import Buffers, TensorSpec
from mulo_engines.errors import EngineError, OutOfMemory, ShapeError
from mulo_engines.fake import FakeEngine

FLOAT = np.dtype(np.float32)
INPUTS = [TensorSpec("x", FLOAT, ("N", 2)), TensorSpec("state", FLOAT, ("N",))]
OUTPUTS = [TensorSpec("y", FLOAT, ("N", 2)), TensorSpec("state_out", FLOAT, ("N",))]


def _accumulate(buffers: Buffers) -> None:
    buffers["y"][...] = 2 * buffers["x"]
    buffers["state_out"][...] = buffers["state"] + buffers["x"].sum(1)


def _engine(**settings: Any) -> FakeEngine:
    return FakeEngine("fake", INPUTS, OUTPUTS, _accumulate, **settings)


def _buffers() -> dict[str, np.ndarray[Any, Any]]:
    state = np.zeros(3, np.float32)
    return {"x": np.ones((3, 2), np.float32), "state": state, "y": np.zeros((3, 2), np.float32), "state_out": state}


def test_it_computes_on_the_bound_buffers() -> None:
    buffers = _buffers()
    call = _engine().bind(buffers)
    call.run()
    call.run()
    assert np.array_equal(buffers["y"], np.full((3, 2), 2))
    assert np.array_equal(buffers["state"], [4, 4, 4])


def test_it_records_copies_of_the_inputs_but_not_of_what_is_updated_in_place() -> None:
    engine, buffers = _engine(), _buffers()
    call = engine.bind(buffers)
    for value in (1, 2):
        buffers["x"].fill(value)
        call.run()
    assert [list(record) for record in engine.calls] == [["x"], ["x"]]
    assert [record["x"][0, 0] for record in engine.calls] == [1, 2]


def test_a_failing_call_computes_nothing_and_the_next_one_works() -> None:
    failure = EngineError("planned")
    engine, buffers = _engine(failures={1: failure}), _buffers()
    call = engine.bind(buffers)
    call.run()
    with pytest.raises(EngineError) as caught:
        call.run()
    assert caught.value is failure
    assert buffers["state"][0] == 2
    call.run()
    assert buffers["state"][0] == 4
    assert len(engine.calls) == 3


def test_calls_are_counted_over_all_that_are_bound() -> None:
    engine = _engine(failures={1: OutOfMemory("planned")})
    first, second = engine.bind(_buffers()), engine.bind(_buffers())
    first.run()
    with pytest.raises(OutOfMemory, match="planned"):
        second.run()


def test_more_buffers_than_its_memory_do_not_bind() -> None:
    bytes_needed = 4 * (6 + 3 + 6)
    _engine(memory_limit=bytes_needed).bind(_buffers())
    with pytest.raises(OutOfMemory, match=rf"(?s)do not fit.*{bytes_needed}.*{bytes_needed - 1}"):
        _engine(memory_limit=bytes_needed - 1).bind(_buffers())


def test_a_delay_is_spent_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("mulo_engines.fake.time.sleep", slept.append)
    call = _engine(delay=0.02).bind(_buffers())
    call.run()
    call.run()
    assert slept == [0.02, 0.02]


def test_without_a_function_outputs_stay_as_they_are() -> None:
    buffers = _buffers()
    FakeEngine("idle", INPUTS, OUTPUTS).bind(buffers).run()
    assert not buffers["y"].any()


def test_a_single_run_finds_the_outputs_sizes_in_the_inputs() -> None:
    outputs = _engine().run_once({"x": np.ones((5, 2), np.float32), "state": np.ones(5, np.float32)})
    assert np.array_equal(outputs["state_out"], np.full(5, 3))
    unknown = FakeEngine("fake", INPUTS, [TensorSpec("y", FLOAT, ("M",))])
    with pytest.raises(ShapeError, match=r"size M of output 'y'"):
        unknown.run_once({"x": np.ones((5, 2), np.float32), "state": np.ones(5, np.float32)})


def test_closing_is_recorded() -> None:
    engine = _engine()
    assert not engine.closed
    with engine:
        pass
    assert engine.closed
