"""A lane: the models, graphs and buffers that serve one request at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mulo_engines.engine import Engine
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from numpy.typing import NDArray

from mulo_runtime.acceptance import PooledMass
from mulo_runtime.acceptance.choose import neighbours_needed
from mulo_runtime.capacity import distribution_rows, drafter_slots, lane_sizes, target_slots
from mulo_runtime.meter import Meter
from mulo_runtime.model import CachedModel
from mulo_runtime.pixels import GridGraph
from mulo_runtime.sampler import Sampler, SamplerBuffers
from mulo_runtime.settings import Chain, Method, MuloSD, Sampling

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
        neighbours: of every codebook entry the nearest, for the methods that look at them; [V, K]; None without any.

    Attributes:
        target, drafter: the models.
        eagle: the target's head; None where no method drafts with it.
        upsampler, downsampler, decoder: the graphs around them.
        previewer: the decoder again, for whoever watches; its runs are not the request's.
        meter: what the engines did for the current request.
        grid: rows and columns of the target's grid.
        draft_grid: rows and columns of the drafter's grid.
        ratio: rows of the target's grid for one of the drafter's.
        queries: the largest number of queries of one pass.
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
        neighbours: NDArray[np.int32] | None = None,
    ) -> None:
        self.meter = Meter()
        self.ratio = manifest.ratio
        self.grid = manifest.target.rows, manifest.target.cols
        self.draft_grid = manifest.drafter.rows, manifest.drafter.cols
        self._sizes = sizes = lane_sizes(manifest, methods, queries)
        self.queries = sizes.queries
        self.vocabulary = manifest.vocabulary
        self._neighbours = np.zeros((self.vocabulary, 0), np.int32) if neighbours is None else neighbours
        self.nearest = self._neighbours
        self._buffers = SamplerBuffers(images, sizes.target.queries, manifest.vocabulary, sizes.distributions)
        models = engines, images, manifest.condition.length, self._buffers, self.meter
        self.target = CachedModel("target", manifest.target, sizes.target, *models)
        self.drafter = CachedModel("drafter", manifest.drafter, sizes.drafter, *models)
        self.eagle: CachedModel | None = None
        if sizes.eagle and manifest.eagle is not None:
            self.eagle = CachedModel("eagle", manifest.eagle, sizes.target, *models)
        self._samplers = {False: self.target.sampler}
        if sizes.distributions:
            self._samplers[True] = Sampler(engines["sampler_full"], self._buffers, self.meter)
        self.upsampler = GridGraph(engines["upsampler"], self.ratio, 1, self.meter)
        self.downsampler = GridGraph(engines["downsampler"], 1, self.ratio, self.meter)
        self.decoder = GridGraph(engines["decoder"], manifest.pixels_per_token, 1, self.meter)
        self.previewer = GridGraph(engines["decoder"], manifest.pixels_per_token, 1, Meter())
        self._pool_k_max = manifest.pool_k_max

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers of the models and their samplers."""
        head = 0 if self.eagle is None else self.eagle.nbytes
        return self.target.nbytes + self.drafter.nbytes + head + self._buffers.nbytes

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
        self._prepare_rule(method)
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
            self.drafter.sampler.configure(method.draft_sampling(sampling), pool_k=1)
        self.target.sampler.configure(sampling, pool_k)
        self.meter.clear()

    def _prepare_rule(self, method: Method) -> None:
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
            self.eagle.sampler = self._samplers[True]
        self.target.sampler = self._samplers[wanted > 0]
        self.nearest = self._neighbours[:, :nearest]

    def reset(self) -> None:
        """Make the lane as good as new after a request that did not end well."""
        self.target.reset()
        self.drafter.reset()
        if self.eagle is not None:
            self.eagle.reset()

    def as_grid(self, tokens: NDArray[Any]) -> NDArray[Any]:
        """View [N, rows * cols] values of the target's grid as [N, rows, cols]."""
        return tokens.reshape(len(tokens), *self.grid)
