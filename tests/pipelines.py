"""Requests on tiny bundles, and real engines that fail on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulo_engines.engine import Buffers, Call, Engine
from mulo_runtime import MuloSD, Pipeline, Prompt, Request
from numpy.typing import NDArray

__all__ = ["ANY_METHOD", "Faults", "FaultyEngine", "MakePipeline", "request"]

PROMPT = Prompt("red circle and blue square")
ANY_METHOD = (MuloSD(rows_per_round=0), MuloSD(refresh="none"), MuloSD(draft="rows"), MuloSD(redraw_k=15))
"""Methods whose needs cover those of every setting on the tiny grids."""

MakePipeline = Callable[..., Pipeline]


def request(seed: int = 0, method: Any = None, **changes: Any) -> Request:
    return Request(PROMPT, seed=seed, method=method, **changes)


class FaultyEngine(Engine):
    """A real engine that runs `before` ahead of every call, bound or not."""

    def __init__(self, engine: Engine, before: Callable[[], None]) -> None:
        super().__init__(engine.name, engine.inputs.values(), engine.outputs.values())
        self._engine, self._before = engine, before

    def run_once(self, inputs: Buffers) -> dict[str, NDArray[Any]]:
        self._before()
        return self._engine.run_once(inputs)

    def close(self) -> None:
        self._engine.close()

    def _bind(self, buffers: Buffers) -> Call:
        return _FaultyCall(self._engine.bind(buffers), self._before)


class _FaultyCall(Call):
    def __init__(self, call: Call, before: Callable[[], None]) -> None:
        self._call, self._before = call, before

    def run(self) -> None:
        self._before()
        self._call.run()


class Faults:
    """Counts engine calls and raises `error` at call `at`."""

    def __init__(self) -> None:
        self.calls = 0
        self.at: int | None = None
        self.error: BaseException = RuntimeError()
        self.on_call: Callable[[int], None] | None = None

    def arm(self, at: int | None, error: BaseException) -> None:
        self.calls, self.at, self.error = 0, at, error

    def __call__(self) -> None:
        self.calls += 1
        if self.on_call is not None:
            self.on_call(self.calls)
        if self.at is not None and self.calls == self.at + 1:
            raise self.error
