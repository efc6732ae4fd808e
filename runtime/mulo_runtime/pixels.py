"""The graphs around the transformers that map whole grids: upsampler, downsampler and decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
from mulo_engines.engine import Call, Engine
from numpy.typing import NDArray

from mulo_runtime.meter import Meter

__all__ = ["GridGraph"]


class GridGraph:
    """A graph with one grid of tokens as input and one array as output, bound once for every size of grid.

    Args:
        engine: the graph.
        numerator: output rows and columns per input row and column,
        denominator: divided by this.
        meter: where runs are booked.
    """

    def __init__(self, engine: Engine, numerator: int, denominator: int, meter: Meter) -> None:
        self._engine, self._meter = engine, meter
        self._numerator, self._denominator = numerator, denominator
        (self._input,), (self._output,) = engine.inputs.values(), engine.outputs.values()
        self._bound: dict[tuple[int, ...], tuple[Call, NDArray[np.int64], NDArray[Any]]] = {}

    def run(self, grid: NDArray[np.int64]) -> NDArray[Any]:
        """Map `grid` [N, rows, cols] to a view that the next run overwrites."""
        if grid.shape not in self._bound:
            self._bound[grid.shape] = self._bind(grid.shape)
        call, source, result = self._bound[grid.shape]
        source[...] = grid
        self._meter.run(self._engine.name, call, len(grid))
        return result

    def _bind(self, shape: tuple[int, ...]) -> tuple[Call, NDArray[np.int64], NDArray[Any]]:
        images, *sides = shape
        source = np.zeros(shape, np.int64)
        scaled = [side * self._numerator // self._denominator for side in sides]
        channels = [int(size) for size in self._output.shape[3:]]
        result = np.zeros((images, *scaled, *channels), self._output.dtype)
        call = self._engine.bind({self._input.name: source, self._output.name: result})
        return call, source, result
