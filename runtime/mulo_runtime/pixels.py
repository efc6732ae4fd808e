"""The graphs around the transformers that map whole grids: upsampler, downsampler and decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from mulo_engines.engine import Call, Engine, TensorSpec
from mulo_engines.errors import NonFiniteError
from numpy.typing import NDArray

from mulo_runtime.meter import Meter

__all__ = ["WITNESS", "GridGraph", "HostGridGraph", "Scale", "check_witness"]

WITNESS = "witness"
"""The output by which a decoder tells of every image [N] whether its pixels were finite; older ones have none."""


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
    """A graph with one grid of tokens as input and one array as output, bound once for every size of grid.

    A decoder may tell a witness beside its images, which is checked before they are given away.

    Args:
        engine: the graph.
        scale: output rows and columns per input row and column.
        meter: where runs are booked.
    """

    def __init__(self, engine: Engine, scale: Scale, meter: Meter) -> None:
        self._engine, self._scale, self._meter = engine, scale, meter
        (self._input,) = engine.inputs.values()
        (self._output,) = (spec for name, spec in engine.outputs.items() if name != WITNESS)

    def _witnessed(self, images: int) -> int:
        """Of how many of its `images` the graph tells a witness: of all or of none."""
        return images if WITNESS in self._engine.outputs else 0

    @abstractmethod
    def run(self, grid: NDArray[np.int64]) -> NDArray[Any]:
        """Map `grid` [N, rows, cols] to a view that the next run overwrites.

        Raises:
            NonFiniteError: the witness of an image is not finite.
        """


def check_witness(graph: str, witness: NDArray[np.float32]) -> None:
    """Check what `graph` witnesses of its images [N]; without any, nothing was.

    Raises:
        NonFiniteError: a number is not finite, hence a value of that image is not.
    """
    broken = np.flatnonzero(~np.isfinite(witness))
    if broken.size:
        raise NonFiniteError(
            f"{graph}: the pixels are not finite",
            found=f"NaN or infinity in image {', '.join(map(str, broken))} of {len(witness)}, counted from 0",
            expected="finite values before they become bytes",
            fix="export with a wider precision (fp32 or bf16), or check the tokenizer's checkpoint",
        )


class _Bound(NamedTuple):
    call: Call
    source: NDArray[np.int64]
    result: NDArray[Any]
    witness: NDArray[np.float32]


class HostGridGraph(GridGraph):
    """A graph that maps grids, on the host; see `GridGraph`."""

    def __init__(self, engine: Engine, scale: Scale, meter: Meter) -> None:
        super().__init__(engine, scale, meter)
        self._bound: dict[tuple[int, ...], _Bound] = {}

    def run(self, grid: NDArray[np.int64]) -> NDArray[Any]:
        """See `GridGraph.run`."""
        if grid.shape not in self._bound:
            self._bound[grid.shape] = self._bind(grid.shape)
        bound = self._bound[grid.shape]
        bound.source[...] = grid
        self._meter.run(self._engine.name, bound.call, len(grid))
        check_witness(self._engine.name, bound.witness)
        return bound.result

    def _bind(self, shape: tuple[int, ...]) -> _Bound:
        source = np.zeros(shape, np.int64)
        result = np.zeros(self._scale.output_shape(shape, self._output), self._output.dtype)
        witness = np.zeros(self._witnessed(len(source)), np.float32)
        buffers = {self._input.name: source, self._output.name: result}
        call = self._engine.bind({**buffers, WITNESS: witness} if witness.size else buffers)
        return _Bound(call, source, result, witness)
