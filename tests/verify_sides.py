"""A backend whose graphs compute something else where they are told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mulo_engines.backend import Backend
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Buffers, Call, Engine
from numpy.typing import NDArray

__all__ = ["Change", "ChangedBackend", "draw_after", "nudge"]

Change = Callable[[Mapping[str, NDArray[Any]]], None]
Changes = Mapping[str, tuple[Change | None, Change | None]]
"""By graph: what is done to the buffers before and after each of its runs."""


class ChangedEngine(Engine):
    """A real engine whose inputs or outputs are changed."""

    def __init__(self, engine: Engine, before: Change | None, after: Change | None) -> None:
        super().__init__(engine.name, engine.inputs.values(), engine.outputs.values())
        self._engine, self._before, self._after = engine, before, after

    def run_once(self, inputs: Buffers) -> dict[str, NDArray[Any]]:
        given = {name: array.copy() for name, array in inputs.items()}
        if self._before is not None:
            self._before(given)
        outputs = self._engine.run_once(given)
        if self._after is not None:
            self._after({**given, **outputs})
        return outputs

    def close(self) -> None:
        self._engine.close()

    def _bind(self, buffers: Buffers) -> Call:
        return _ChangedCall(self._engine.bind(buffers), buffers, self._before, self._after)


class _ChangedCall(Call):
    def __init__(self, call: Call, buffers: Buffers, before: Change | None, after: Change | None) -> None:
        self._call, self._buffers, self._before, self._after = call, buffers, before, after

    def run(self) -> None:
        if self._before is not None:
            self._before(self._buffers)
        self._call.run()
        if self._after is not None:
            self._after(self._buffers)


class ChangedBackend(Backend):
    """ONNX Runtime, with some graphs changed."""

    def __init__(self, changes: Changes) -> None:
        self._inner, self._changes = open_backend("onnxruntime", threads=1), changes

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        engine = self._inner.load(bundle, graph)
        return ChangedEngine(engine, *self._changes[graph]) if graph in self._changes else engine


def draw_after(position: int, token: int) -> Change:
    """Let a transformer be certain of `token` behind the query at sequence `position`."""

    def change(buffers: Mapping[str, NDArray[Any]]) -> None:
        queries = np.flatnonzero(buffers["position_ids"][0] == position)
        rows = np.isin(buffers["logit_rows"][0], queries)
        buffers["logits"][:, rows, token] = 1000

    return change


def nudge(distance: float) -> Change:
    """Let a sampler draw with numbers that are larger by `distance`."""

    def change(buffers: Mapping[str, NDArray[Any]]) -> None:
        np.minimum(buffers["uniforms"] + np.float32(distance), 0.9999, out=buffers["uniforms"])

    return change
