"""The graphs around the transformers, on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from mulo_engines.engine import Call, Engine
from mulo_engines.stream import DeviceArray, Mark, Stream
from numpy.typing import NDArray

from mulo_runtime.meter import Meter
from mulo_runtime.pixels import WITNESS, GridGraph, Scale, check_witness

__all__ = ["DeviceGridGraph"]


class _Bound(NamedTuple):
    call: Call
    sent: NDArray[np.int64]
    source: DeviceArray
    result: DeviceArray
    received: NDArray[Any]
    witness: DeviceArray
    witnessed: NDArray[np.float32]


class DeviceGridGraph(GridGraph):
    """A graph that maps grids, on a device; see `GridGraph`.

    Args:
        engine: the graph.
        scale: output rows and columns per input row and column.
        stream: the lane's.
        meter: where runs are booked.
    """

    def __init__(self, engine: Engine, scale: Scale, stream: Stream, meter: Meter) -> None:
        super().__init__(engine, scale, meter)
        self._stream = stream
        self._mark: Mark = stream.mark()
        self._calls: dict[tuple[int, ...], _Bound] = {}

    def run(self, grid: NDArray[np.int64]) -> NDArray[Any]:
        """See `GridGraph.run`; reads back."""
        bound = self._bound(grid.shape)
        bound.sent[...] = grid
        self._stream.upload(bound.source, bound.sent)
        self._enqueue(bound)
        self._mark.set()
        self._meter.read_back(self._mark)
        check_witness(self._engine.name, bound.witnessed)
        return bound.received

    def enqueue(self, rows: Sequence[DeviceArray]) -> NDArray[Any]:
        """Map `rows` [rows, cols] of every image; the result is there once a later mark was waited for.

        Nobody checks a witness then: it serves the graphs that tell none.
        """
        bound = self._bound((len(rows), *rows[0].shape))
        for image, source in enumerate(rows):
            self._stream.copy(bound.source.part(source.shape, offset=image * source.nbytes), source)
        self._enqueue(bound)
        return bound.received

    def _enqueue(self, bound: _Bound) -> None:
        self._meter.run(self._engine.name, bound.call, len(bound.sent))
        self._stream.read(bound.received, bound.result)
        self._stream.read(bound.witnessed, bound.witness)

    def _bound(self, shape: tuple[int, ...]) -> _Bound:
        if shape not in self._calls:
            self._calls[shape] = self._bind(shape)
        return self._calls[shape]

    def _bind(self, shape: tuple[int, ...]) -> _Bound:
        source = self._stream.zeros(shape, self._input.dtype)
        result = self._stream.zeros(self._scale.output_shape(shape, self._output), self._output.dtype)
        witness = self._stream.zeros((self._witnessed(shape[0]),), np.dtype(np.float32))
        buffers = {self._input.name: source, self._output.name: result}
        call = self._engine.bind({**buffers, WITNESS: witness} if witness.nbytes else buffers)
        sent, received, witnessed = (_pinned(self._stream, array) for array in (source, result, witness))
        return _Bound(call, sent, source, result, received, witness, witnessed)


def _pinned(stream: Stream, like: DeviceArray) -> NDArray[Any]:
    array: NDArray[Any] = stream.pinned(like.nbytes).view(like.dtype).reshape(like.shape)
    return array
