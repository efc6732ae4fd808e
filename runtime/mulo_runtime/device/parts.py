"""The parts of a lane whose engines run on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np
from mulo_engines.buckets import query_bucket
from mulo_engines.cache_tensors import cache_spec
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineError
from mulo_engines.manifest import Manifest, ModelRecord
from mulo_engines.memory import ModelBuffers
from mulo_engines.stream import Stream
from numpy.typing import NDArray

from mulo_runtime.capacity import LaneSizes
from mulo_runtime.device.block import BlockSize, block_layout
from mulo_runtime.device.passes import DevicePasses, Transfers
from mulo_runtime.device.pixels import DeviceGridGraph
from mulo_runtime.device.results import Results
from mulo_runtime.device.sampler import DeviceSampler
from mulo_runtime.device.staging import ALIGNMENT, Staging, aligned
from mulo_runtime.device.stretch import DeviceStretch
from mulo_runtime.device.token_log import TokenLog
from mulo_runtime.lane_parts import LaneParts
from mulo_runtime.meter import Meter
from mulo_runtime.model import CachedModel
from mulo_runtime.passes import Ids
from mulo_runtime.pixels import GridGraph, Scale
from mulo_runtime.stretch import Stretch

__all__ = ["DeviceParts"]

_TOKEN_BYTES = 8 + 4 + 4
"""Of a drawn token that is read back: itself, its candidate's probability and mass."""


class DeviceParts(LaneParts):
    """Parts whose engines run on a device; see `LaneParts` for further arguments.

    Args:
        stream: the lane's.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        manifest: Manifest,
        sizes: LaneSizes,
        images: int,
        meter: Meter,
        stream: Stream,
    ) -> None:
        super().__init__(engines, manifest, sizes, images, meter)
        self._stream = stream
        self._sampler = DeviceSampler(
            engines["sampler"], stream, images, query_bucket(sizes.target.queries), manifest.vocabulary
        )
        block = max(self._block_bytes(*model) for model in self._models.values())
        tokens = max(record.rows * record.cols for record, _ in self._models.values())
        staging = max(2 * block, aligned(images * (tokens + 1) * 8))
        # A stretch reads back each token once, its passes' rows rounded up to a bucket, or all tokens of the log.
        results = images * (2 * tokens + 2 * sizes.target.queries) * _TOKEN_BYTES + 4 * tokens * ALIGNMENT
        self._transfers = Transfers(
            stream,
            Staging(stream, staging, meter.throttle),
            stream.zeros((block,), np.dtype(np.uint8)),
            Results(stream, results, meter),
        )

    def model(self, name: str) -> CachedModel:
        """See `LaneParts.model`."""
        record, buffers = self._models[name]
        tokens = record.rows * record.cols
        log = TokenLog(self._engines["feed"], self._stream, self._sampler, self._images, tokens, self._meter)
        passes = DevicePasses(
            self._engines[name],
            record,
            buffers,
            self._images,
            self._prefix,
            self._sampler,
            log,
            self._transfers,
            self._meter,
        )
        return CachedModel(name, record, self._images, self._prefix, passes)

    def head(self) -> CachedModel | None:
        """See `LaneParts.head`; methods that draft with it decode on the host."""
        return None

    def grid_graph(self, name: str, scale: Scale, meter: Meter) -> GridGraph:
        """See `LaneParts.grid_graph`."""
        return DeviceGridGraph(self._engines[name], scale, self._stream, meter)

    def stretch(
        self, model: CachedModel, tokens: Ids, uniforms: NDArray[np.float32], guard: Callable[[], None]
    ) -> Stretch:
        """See `LaneParts.stretch`."""
        assert isinstance(model.passes, DevicePasses)
        return DeviceStretch(model, tokens, uniforms, guard, model.passes)

    def drain(self) -> None:
        """See `LaneParts.drain`."""
        # What failed was the business of a request that is over.
        with suppress(EngineError):
            self._transfers.results.wait()

    @property
    def nbytes(self) -> int:
        """See `LaneParts.nbytes`."""
        return self._sampler.nbytes + self._transfers.block.nbytes

    def _block_bytes(self, record: ModelRecord, buffers: ModelBuffers) -> int:
        """Of the largest pass: the condition's, or one of as many queries as may be."""
        dtype = cache_spec(self._engines["target"].inputs).dtype
        passes = [(self._prefix, 0, 1), (0, buffers.queries, buffers.queries)]
        sizes = [
            BlockSize(self._images, 2, prefix, queries, rows, buffers.slots, record.dim, dtype, buffers.queries)
            for prefix, queries, rows in passes
        ]
        return max(block_layout(size).size for size in sizes)
