"""A transformer that notes what enters its linear layers, and is otherwise the engine that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Buffers, Call, Engine
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_export.calibration import InputRange
from mulo_export.graphs.builder import with_input_ranges
from mulo_export.weights import copy_weights
from numpy.typing import NDArray

__all__ = ["ObservedEngine"]

_RANGES = "input_ranges"


class ObservedEngine(Engine):
    """An engine that keeps how large what entered each of its linear layers was, over all passes.

    Args:
        inner: runs the graph that tells them.
        layers: names of the layers' weights, in the order in which it does.
    """

    def __init__(self, inner: Engine, layers: Sequence[str]) -> None:
        outputs = [spec for name, spec in inner.outputs.items() if name != _RANGES]
        super().__init__(inner.name, inner.inputs.values(), outputs)
        self._inner, self._layers = inner, layers
        self._seen = _Seen(np.zeros(len(layers)), np.zeros(len(layers)))

    @classmethod
    def load(cls, bundle: Bundle, graph: str, *, threads: int = 0) -> ObservedEngine:
        """Load the transformer `graph` of a bundle whose linear layers are not quantized.

        Raises:
            EngineError: it cannot be loaded.
        """
        (record,) = (record for record in bundle.manifest.graphs if record.name == graph)
        with TemporaryDirectory() as folder:
            # ONNX Runtime reads no weights outside the folder of a graph.
            for location in record.weights:
                (place := Path(folder, location)).parent.mkdir(parents=True, exist_ok=True)
                copy_weights(bundle.path / location, place, lambda _: None)
            model, layers = with_input_ranges(bundle.graph(graph), "layers.", _RANGES)
            path = Path(folder, record.file)
            path.write_bytes(model)
            return cls(OnnxRuntimeEngine.load(path, name=graph, threads=threads), layers)

    @property
    def ranges(self) -> dict[str, InputRange]:
        """What entered every layer so far, by the name of its weight; every pass counts alike."""
        rms = np.sqrt(self._seen.squares / max(self._seen.passes, 1))
        pairs = zip(self._seen.largest.tolist(), rms.tolist(), strict=True)
        found = (InputRange(amax=amax, rms=rms) for amax, rms in pairs)
        return dict(zip(self._layers, found, strict=True))

    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See `Engine.run_once`."""
        outputs = self._inner.run_once(inputs)
        self._seen.add(outputs.pop(_RANGES))
        return outputs

    def close(self) -> None:
        """See `Engine.close`."""
        self._inner.close()

    def _bind(self, buffers: Buffers) -> Call:
        ranges = np.zeros((2, len(self._layers)), np.float32)
        return _ObservedCall(self._inner.bind({**buffers, _RANGES: ranges}), ranges, self._seen)


@dataclass(slots=True)
class _Seen:
    """What all passes together have seen, for every layer.

    Attributes:
        largest: the largest magnitude.
        squares: the sum of the passes' mean squares.
        passes: how many there were.
    """

    largest: NDArray[np.float64]
    squares: NDArray[np.float64]
    passes: int = 0

    def add(self, ranges: NDArray[np.float32]) -> None:
        np.maximum(self.largest, ranges[0], out=self.largest)
        self.squares += ranges[1]
        self.passes += 1


class _ObservedCall(Call):
    def __init__(self, inner: Call, ranges: NDArray[np.float32], seen: _Seen) -> None:
        self._inner, self._ranges, self._seen = inner, ranges, seen

    def run(self) -> None:
        """See `Call.run`."""
        self._inner.run()
        self._seen.add(self._ranges)
