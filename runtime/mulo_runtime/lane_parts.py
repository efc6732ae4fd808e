"""What a lane is made of, whether its engines run on the host or on a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np
from mulo_engines.engine import Engine
from mulo_engines.manifest import Manifest, ModelRecord
from mulo_engines.memory import ModelBuffers
from numpy.typing import NDArray

from mulo_runtime.capacity import LaneSizes
from mulo_runtime.host_passes import HostPasses
from mulo_runtime.meter import Meter
from mulo_runtime.model import CachedModel
from mulo_runtime.passes import Ids
from mulo_runtime.pixels import GridGraph, HostGridGraph, Scale
from mulo_runtime.sampler import Sampler, SamplerBuffers
from mulo_runtime.stretch import HostStretch, Stretch

__all__ = ["HostParts", "LaneParts"]


class LaneParts(ABC):
    """Makes the parts of one lane, which share buffers where they never run at the same time.

    Args:
        engines: every graph by name.
        manifest: sizes.
        sizes: of the lane's buffers.
        images: N.
        meter: where runs are booked.
    """

    def __init__(
        self, engines: Mapping[str, Engine], manifest: Manifest, sizes: LaneSizes, images: int, meter: Meter
    ) -> None:
        self._engines, self._images, self._meter = engines, images, meter
        self._prefix = manifest.condition.length
        self._models: dict[str, tuple[ModelRecord, ModelBuffers]] = {
            "drafter": (manifest.drafter, sizes.drafter),
            "target": (manifest.target, sizes.target),
        }

    @abstractmethod
    def model(self, name: str) -> CachedModel:
        """The "drafter" or the "target"."""

    @abstractmethod
    def head(self) -> CachedModel | None:
        """The target's EAGLE head; None where no method drafts with it."""

    @abstractmethod
    def grid_graph(self, name: str, scale: Scale, meter: Meter) -> GridGraph:
        """The graph `name`, which maps grids."""

    @abstractmethod
    def stretch(
        self, model: CachedModel, tokens: Ids, uniforms: NDArray[np.float32], guard: Callable[[], None]
    ) -> Stretch:
        """A stretch of one of the models."""

    @abstractmethod
    def drain(self) -> None:
        """Wait for whatever is still running."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the buffers that the models share."""


class HostParts(LaneParts):
    """Parts whose engines run on the host; see `LaneParts` for arguments."""

    def __init__(
        self, engines: Mapping[str, Engine], manifest: Manifest, sizes: LaneSizes, images: int, meter: Meter
    ) -> None:
        super().__init__(engines, manifest, sizes, images, meter)
        if sizes.eagle and manifest.eagle is not None:
            self._models["eagle"] = manifest.eagle, sizes.target
        self._buffers = SamplerBuffers(images, sizes.target.queries, manifest.vocabulary, sizes.distributions)
        self._full = sizes.distributions > 0

    def model(self, name: str) -> CachedModel:
        """See `LaneParts.model`."""
        record, buffers = self._models[name]
        graphs = {False: "sampler", True: "sampler_full"} if self._full else {False: "sampler"}
        samplers = {told: Sampler(self._engines[graph], self._buffers, self._meter) for told, graph in graphs.items()}
        shape = self._images, self._prefix
        passes = HostPasses(self._engines[name], record, buffers, *shape, samplers, self._meter)
        return CachedModel(name, record, *shape, passes)

    def head(self) -> CachedModel | None:
        """See `LaneParts.head`."""
        return self.model("eagle") if "eagle" in self._models else None

    def grid_graph(self, name: str, scale: Scale, meter: Meter) -> GridGraph:
        """See `LaneParts.grid_graph`."""
        return HostGridGraph(self._engines[name], scale, meter)

    def stretch(
        self, model: CachedModel, tokens: Ids, uniforms: NDArray[np.float32], guard: Callable[[], None]
    ) -> Stretch:
        """See `LaneParts.stretch`."""
        return HostStretch(model, tokens, uniforms, guard)

    def drain(self) -> None:
        """See `LaneParts.drain`; every run has ended when it returns."""

    @property
    def nbytes(self) -> int:
        """See `LaneParts.nbytes`."""
        return self._buffers.nbytes
