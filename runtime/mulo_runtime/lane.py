"""A lane: the models, graphs and buffers that serve one request at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from mulo_engines.cache_tensors import cache_spec
from mulo_engines.engine import Engine
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_engines.stream import Stream
from numpy.typing import NDArray

from mulo_runtime.acceptance import PooledMass
from mulo_runtime.acceptance.choose import neighbours_needed
from mulo_runtime.capacity import distribution_rows, drafter_slots, lane_sizes, target_slots
from mulo_runtime.device.parts import DeviceParts
from mulo_runtime.lane_parts import HostParts, LaneParts
from mulo_runtime.meter import Meter
from mulo_runtime.model import CachedModel
from mulo_runtime.pixels import Scale
from mulo_runtime.settings import Chain, Method, MuloSD, Sampling
from mulo_runtime.stretch import Stretch

__all__ = ["LANE_GRAPHS", "Lane"]

LANE_GRAPHS = ("drafter", "target", "sampler", "upsampler", "downsampler", "decoder")
"""The graphs that a lane binds buffers to."""


class Lane:
    """Buffers for N images over engines that lanes share.

    Args:
        engines: the graphs of `LANE_GRAPHS` by name.
        manifest: sizes.
        images: N, how many images are decoded together.
        queries: the largest number of queries of one pass.
        methods: the methods that the buffers must hold.
        stream: the lane's, where the engines run on a device; the graph "feed" is needed then, too.
        neighbours: of every codebook entry the nearest, for the methods that look at them; [V, K]; None without any.

    Attributes:
        target, drafter: the models.
        eagle: the target's head; None where no method drafts with it.
        upsampler, downsampler, decoder: the graphs around them.
        previewer: the decoder again, for whoever watches; its runs are not the request's.
        meter: what the engines did for the current request.
        stepped: the monotonic time of the last pass, or of the lease before it.
        grid: rows and columns of the target's grid.
        draft_grid: rows and columns of the drafter's grid.
        ratio: rows of the target's grid for one of the drafter's.
        queries: the largest number of queries of one pass.
        images: N, how many images are decoded together.
        vocabulary: V.
        nearest: of every codebook entry as many of the nearest as the current method looks at; [V, k].
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        manifest: Manifest,
        images: int,
        queries: int,
        methods: Sequence[Method],
        stream: Stream | None = None,
        neighbours: NDArray[np.int32] | None = None,
    ) -> None:
        self.meter = Meter()
        self._stream = stream
        self.stepped = 0.0
        self.ratio = manifest.ratio
        self.grid = manifest.target.rows, manifest.target.cols
        self.draft_grid = manifest.drafter.rows, manifest.drafter.cols
        lengths = {name: cache_spec(engines[name].inputs).shape[2] for name in ("target", "drafter")}
        self._sizes = sizes = lane_sizes(manifest, methods, queries).with_slots(lengths)
        self.queries = sizes.queries
        self.images = images
        self.vocabulary = manifest.vocabulary
        self._neighbours = np.zeros((self.vocabulary, 0), np.int32) if neighbours is None else neighbours
        self.nearest = self._neighbours
        self._pool_k_max, self._pixels = manifest.pool_k_max, Scale(manifest.pixels_per_token)
        parts = HostParts if stream is None else partial(DeviceParts, stream=stream)
        self._make_parts: Callable[[], LaneParts] = partial(parts, engines, manifest, sizes, images, self.meter)
        self._build()

    def _build(self) -> None:
        self._parts = parts = self._make_parts()
        self.target, self.drafter, self.eagle = parts.model("target"), parts.model("drafter"), parts.head()
        self.upsampler = parts.grid_graph("upsampler", Scale(self.ratio), self.meter)
        self.downsampler = parts.grid_graph("downsampler", Scale(1, self.ratio), self.meter)
        self.decoder = parts.grid_graph("decoder", self._pixels, self.meter)
        self.previewer = parts.grid_graph("decoder", self._pixels, Meter())

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers of the models and their samplers."""
        head = 0 if self.eagle is None else self.eagle.nbytes
        return self.target.nbytes + self.drafter.nbytes + head + self._parts.nbytes

    def prepare(self, sampling: Sampling, method: Method) -> None:
        """Set the lane up for a request.

        Raises:
            RequestError: the lane's cache is too small for the method, or the bundle pools over fewer neighbours.
        """
        needed = target_slots(method, self.grid, self.ratio), drafter_slots(method, self.draft_grid)
        held = self._sizes.target_slots, self._sizes.drafter_slots
        if needed[0] > held[0] or needed[1] > held[1]:
            raise RequestError(
                "the lane's cache is too small for these settings",
                found=f"{needed[0]} slots of the target, {needed[1]} of the drafter",
                expected=f"at most {held[0]} and {held[1]}",
                fix="open the pipeline with methods=[...] that include these settings",
            )
        self._prepare_rule(method, sampling)
        pool_k = 1
        if isinstance(method, MuloSD):
            pool_k = PooledMass(method.tau, method.pool_k, method.include_self).pool_k
            if pool_k > self._pool_k_max:
                raise RequestError(
                    "the bundle's neighbour table is too short for pool_k",
                    found=f"{pool_k} entries to pool, the candidate included",
                    expected=f"at most {self._pool_k_max}",
                    fix="lower pool_k, or export the bundle with a larger --pool-k-max",
                )
            self.drafter.passes.configure(method.draft_sampling(sampling), pool_k=1)
        self.target.passes.configure(sampling, pool_k)

    def attach(self) -> None:
        """Let this thread use the lane, which another may have used before."""
        if self._stream is not None:
            self._stream.attach()

    @property
    def slow_runs(self) -> int:
        """Runs so far that no CUDA graph served, for the warm-up met none of their size; 0 on the host."""
        return 0 if self._stream is None else self._stream.slow_runs

    @contextmanager
    def warming(self) -> Iterator[None]:
        """While it lasts, whatever runs on a device is made ready to run at its fastest from then on."""
        if self._stream is None:
            yield
            return
        self._stream.attach()
        self._stream.warming = True
        try:
            yield
        finally:
            self._stream.warming = False

    def close(self) -> None:
        """Free the lane's stream, after the engines that run on it were closed."""
        if self._stream is not None:
            self._stream.close()

    def rebuild(self) -> None:
        """Free all buffers, after memory ran out, and allocate them anew.

        Raises:
            OutOfMemory: they do not fit any more; the lane cannot be used again.
        """
        self._parts.drain()
        del (
            self._parts,
            self.target,
            self.drafter,
            self.eagle,
            self.upsampler,
            self.downsampler,
            self.decoder,
            self.previewer,
        )
        self._build()

    def _prepare_rule(self, method: Method, sampling: Sampling) -> None:
        """Have the target's passes tell distributions if the method's rule wants them, and look up its neighbours."""
        wanted = distribution_rows(method, self.grid)
        if wanted > self._sizes.distributions:
            raise RequestError(
                "the lane has too few distributions for these settings",
                found=f"{wanted} tokens verified in a pass",
                expected=f"at most {self._sizes.distributions}",
                fix="open the pipeline with methods=[...] that include these settings",
            )
        nearest = neighbours_needed(method)
        if nearest > self._neighbours.shape[1]:
            raise RequestError(
                "the neighbour table is too short for these settings",
                found=f"{nearest} nearest codebook entries",
                expected=f"at most {self._neighbours.shape[1]}",
                fix="open the pipeline with methods=[...] that include them, or export with a larger --pool-k-max",
            )
        if isinstance(method, Chain):
            if self.eagle is None:
                raise RequestError(
                    "the lane has no EAGLE head to draft with",
                    fix="open the pipeline with methods=[...] that include these settings",
                )
            self.eagle.passes.tell_distributions(True)
            self.eagle.passes.configure(sampling, pool_k=1)
        self.target.passes.tell_distributions(wanted > 0)
        self.nearest = self._neighbours[:, :nearest]

    def reset(self) -> None:
        """Make the lane as good as new after a request that did not end well.

        Raises:
            DeviceFailed: the device is gone.
        """
        self._parts.drain()
        self.target.reset()
        self.drafter.reset()
        if self.eagle is not None:
            self.eagle.reset()

    def stretch(
        self, model: CachedModel, tokens: NDArray[np.int64], uniforms: NDArray[np.float32], guard: Callable[[], None]
    ) -> Stretch:
        """A stretch of one of this lane's models; see `Stretch`."""
        return self._parts.stretch(model, tokens, uniforms, guard)

    def as_grid(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """View [N, rows * cols] values of the target's grid as [N, rows, cols]."""
        return tokens.reshape(len(tokens), *self.grid)
