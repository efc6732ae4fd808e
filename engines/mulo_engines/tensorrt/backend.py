"""TensorRT and TensorRT-RTX as backends: the engines that were compiled for a bundle and this GPU."""

from __future__ import annotations

from pathlib import Path

from mulo_engines.backend import Limits
from mulo_engines.bundle import Bundle
from mulo_engines.cuda.backend import CudaBackend
from mulo_engines.engine import Engine
from mulo_engines.signature import graph_signature
from mulo_engines.stream import Stream
from mulo_engines.tensorrt.binding import load_binding
from mulo_engines.tensorrt.engine import PlanRuntime
from mulo_engines.tensorrt.engine_set import EngineSet, engines_root, open_engine_set

__all__ = ["TensorRtBackend"]


class TensorRtBackend(CudaBackend):
    """Plans on an NVIDIA GPU.

    Args:
        name: "tensorrt" or "tensorrt-rtx".
        device: number of the GPU.
        engines: where the engines of a bundle lie; None looks inside the bundle.

    Raises:
        EngineUnavailable: the library is not installed, or there is no such GPU.
        UnsupportedVersion: mulo is not made for the library, the GPU or its driver.
    """

    def __init__(self, name: str, *, device: int = 0, engines: Path | None = None) -> None:
        self._name, self._binding, self._engines = name, load_binding(name), engines
        super().__init__(name, device)
        self._runtime = PlanRuntime(self._binding, self._device)
        self._sets: dict[Path, EngineSet] = {}

    def new_stream(self) -> Stream:
        """See `Backend.new_stream`."""
        return self._device.new_stream()

    def limits(self, bundle: Bundle) -> Limits:
        """See `Backend.limits`."""
        record = self._set(bundle).record
        return Limits(record.images, record.queries)

    def scratch_bytes(self, bundle: Bundle) -> int:
        """See `Backend.scratch_bytes`; what loaded engines say themselves, or an upper estimate before."""
        estimates = (engine.activation_bytes for engine in self._set(bundle).record.engines)
        return self._device.scratch or max(estimates, default=0)

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        engines, signature = self._set(bundle), graph_signature(bundle.manifest, graph)
        bundle.graph(graph)
        length = min((each for each in engines.lengths(graph) if each >= slots), default=None)
        return self._runtime.load(engines.plan(graph, length), engines.engine(graph, length), signature)

    def _set(self, bundle: Bundle) -> EngineSet:
        if bundle.path not in self._sets:
            self._sets[bundle.path] = open_engine_set(
                bundle,
                backend=self._name,
                version=self._binding.version,
                gpu=self._gpu,
                root=engines_root(bundle.path, self._engines),
            )
        return self._sets[bundle.path]
