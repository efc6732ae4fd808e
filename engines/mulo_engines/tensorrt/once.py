"""A plan run now and then on arrays of the host, such as a condition's: on a stream of its own, which is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mulo_engines.cuda.stream import CudaStream
from mulo_engines.engine import Call, Engine
from mulo_engines.stream import DeviceArray

__all__ = ["OccasionalRuns", "Shapes"]

Shapes = Mapping[str, tuple[int, ...]]


class _Bound(NamedTuple):
    call: Call
    inputs: dict[str, DeviceArray]
    outputs: dict[str, DeviceArray]


class OccasionalRuns:
    """Runs of `engine`, one at a time, each size on buffers that are kept.

    Args:
        engine: the plan.
        stream: nobody else uses it.
        output_shapes: gives the shapes of the outputs for those of the inputs.
        in_place: the output that shares the buffer of an input, by that input's name.
    """

    def __init__(
        self,
        engine: Engine,
        stream: CudaStream,
        output_shapes: Callable[[Shapes], Shapes],
        in_place: Mapping[str, str],
    ) -> None:
        self._engine, self._stream, self._output_shapes, self._in_place = engine, stream, output_shapes, in_place
        self._mark = stream.mark()
        self._lock = Lock()
        self._calls: dict[tuple[tuple[int, ...], ...], _Bound] = {}

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The outputs for `inputs`."""
        with self._lock:
            self._stream.attach()
            bound = self._bound({name: inputs[name].shape for name in self._engine.inputs})
            for name, array in bound.inputs.items():
                self._stream.upload(array, np.ascontiguousarray(inputs[name]))
            bound.call.run()
            outputs = {name: np.empty(array.shape, array.dtype) for name, array in bound.outputs.items()}
            for name, array in bound.outputs.items():
                self._stream.read(outputs[name], array)
            self._mark.set()
            self._mark.wait()
            return outputs

    def close(self) -> None:
        """Free the buffers and the stream."""
        with self._lock:
            self._calls.clear()
            self._stream.close()

    def _bound(self, shapes: Shapes) -> _Bound:
        key = tuple(shapes.values())
        if key not in self._calls:
            self._calls[key] = self._bind(shapes)
        return self._calls[key]

    def _bind(self, shapes: Shapes) -> _Bound:
        zeros, engine = self._stream.zeros, self._engine
        inputs = {name: zeros(shape, engine.inputs[name].dtype) for name, shape in shapes.items()}
        outputs = {self._in_place[name]: inputs[name] for name in self._in_place}
        made = self._output_shapes(shapes)
        outputs |= {name: zeros(made[name], spec.dtype) for name, spec in engine.outputs.items() if name not in outputs}
        return _Bound(engine.bind({**inputs, **outputs}), inputs, outputs)
