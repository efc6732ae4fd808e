"""The graphs around the transformers that map whole grids: upsampler, downsampler and decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from mulo_engines.engine import Call, Engine, TensorSpec
from numpy.typing import NDArray

from mulo_runtime.meter import Meter

__all__ = ["GridGraph", "HostGridGraph", "Scale"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Output rows and columns per input row and column: `numerator` / `denominator`."""

    numerator: int
    denominator: int = 1

    def output_shape(self, shape: tuple[int, ...], output: TensorSpec) -> tuple[int, ...]:
        """The shape of `output` for grids of `shape` [N, rows, cols]."""
        images, *sides = shape
        scaled = (side * self.numerator // self.denominator for side in sides)
        return (images, *scaled, *(int(size) for size in output.shape[3:]))


class GridGraph(ABC):
    """A graph with one grid of tokens as input and one array as output, bound once for every size of grid."""

    @abstractmethod
    def run(self, grid: NDArray[np.int64]) -> NDArray[Any]:
        """Map `grid` [N, rows, cols] to a view that the next run overwrites."""


class HostGridGraph(GridGraph):
    """A graph that maps grids, on the host.

    Args:
        engine: the graph.
        scale: output rows and columns per input row and column.
        meter: where runs are booked.
    """

    def __init__(self, engine: Engine, scale: Scale, meter: Meter) -> None:
        self._engine, self._scale, self._meter = engine, scale, meter
        (self._input,), (self._output,) = engine.inputs.values(), engine.outputs.values()
        self._bound: dict[tuple[int, ...], tuple[Call, NDArray[np.int64], NDArray[Any]]] = {}

    def run(self, grid: NDArray[np.int64]) -> NDArray[Any]:
        """See `GridGraph.run`."""
        if grid.shape not in self._bound:
            self._bound[grid.shape] = self._bind(grid.shape)
        call, source, result = self._bound[grid.shape]
        source[...] = grid
        self._meter.run(self._engine.name, call, len(grid))
        return result

    def _bind(self, shape: tuple[int, ...]) -> tuple[Call, NDArray[np.int64], NDArray[Any]]:
        source = np.zeros(shape, np.int64)
        result = np.zeros(self._scale.output_shape(shape, self._output), self._output.dtype)
        call = self._engine.bind({self._input.name: source, self._output.name: result})
        return call, source, result
