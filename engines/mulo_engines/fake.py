"""An engine without a graph: it records its calls and fails where it is told to, so that loops can be tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_engines.engine import Buffers, Call, Engine, TensorSpec, address, check_inputs, closed_error, host_arrays
from mulo_engines.errors import OutOfMemory, ShapeError

__all__ = ["Compute", "FakeEngine"]

Compute = Callable[[Mapping[str, NDArray[Any]]], None]
"""Reads the inputs and writes the outputs, all of them given by name."""


class FakeEngine(Engine):
    """Runs a Python function in place of a graph.

    Attributes:
        calls: for every call so far, copies of the inputs that it saw, but for those updated in place.
        closed: whether the engine was closed.
    """

    def __init__(
        self,
        name: str,
        inputs: Iterable[TensorSpec],
        outputs: Iterable[TensorSpec],
        compute: Compute | None = None,
        *,
        delay: float = 0.0,
        failures: Mapping[int, Exception] | None = None,
        memory_limit: int | None = None,
    ) -> None:
        """Declare the engine.

        Args:
            name: what errors call it.
            inputs: its inputs.
            outputs: its outputs.
            compute: what a call does; without it the outputs stay as they are.
            delay: seconds that every call takes.
            failures: the exception that call k raises, counted from 0, before it computes anything.
            memory_limit: bytes of buffers that one call may bind; more is `OutOfMemory`.
        """
        super().__init__(name, inputs, outputs)
        self.calls: list[dict[str, NDArray[Any]]] = []
        self.closed = False
        self._compute, self._delay, self._memory_limit = compute, delay, memory_limit
        self._failures = dict(failures or {})

    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See `Engine.run_once`; every symbol of an output's shape must occur in an input's."""
        symbols = check_inputs(self, inputs)
        outputs = {name: np.zeros(_shape(self.name, spec, symbols), spec.dtype) for name, spec in self.outputs.items()}
        self._perform({**inputs, **outputs})
        return outputs

    def close(self) -> None:
        """See `Engine.close`."""
        self.closed = True

    def _bind(self, buffers: Buffers) -> Call:
        self._refuse_closed()
        needed = sum({address(buffer): buffer.nbytes for buffer in buffers.values() if buffer.size}.values())
        if self._memory_limit is not None and needed > self._memory_limit:
            raise OutOfMemory(f"{self.name}: the buffers do not fit", found=needed, expected=self._memory_limit)
        return _FakeCall(self, host_arrays(self, buffers))

    def _perform(self, buffers: Mapping[str, NDArray[Any]]) -> None:
        self._refuse_closed()
        written = {address(buffers[name]) for name in self.outputs if buffers[name].size}
        index = len(self.calls)
        self.calls.append({name: buffers[name].copy() for name in self.inputs if address(buffers[name]) not in written})
        if self._delay:
            time.sleep(self._delay)
        if index in self._failures:
            raise self._failures[index]
        if self._compute is not None:
            self._compute(buffers)

    def _refuse_closed(self) -> None:
        if self.closed:
            raise closed_error(self.name)


class _FakeCall(Call):
    def __init__(self, engine: FakeEngine, buffers: Mapping[str, NDArray[Any]]) -> None:
        self._engine, self._buffers = engine, dict(buffers)

    def run(self) -> None:
        """See `Call.run`."""
        self._engine._perform(self._buffers)


def _shape(engine: str, spec: TensorSpec, symbols: Mapping[str, int]) -> list[int]:
    unknown = [size for size in spec.shape if isinstance(size, str) and size not in symbols]
    if unknown:
        raise ShapeError(f"{engine}: no input tells the size {unknown[0]} of output {spec.name!r}", fix="bind buffers")
    return [symbols[size] if isinstance(size, str) else size for size in spec.shape]
