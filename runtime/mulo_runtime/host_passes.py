"""Passes on the host: arrays that engines read where they lie, over a cache of which a growing part is bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mulo_engines.buckets import slot_bucket
from mulo_engines.cache_slots import pass_buckets
from mulo_engines.cache_tensors import cache_spec, updated_name
from mulo_engines.engine import Call, Engine
from mulo_engines.manifest import ModelRecord
from mulo_engines.memory import ModelBuffers
from numpy.typing import NDArray

from mulo_runtime.cache import CacheBuffers
from mulo_runtime.meter import Meter
from mulo_runtime.passes import HIDDEN, Ids, Passes, PassInputs, check_finite
from mulo_runtime.sampler import Draws, Sampler
from mulo_runtime.settings import Sampling

__all__ = ["HostInputs", "HostPasses"]


@dataclass(frozen=True, slots=True)
class HostInputs(PassInputs):
    """Inputs bound to a pass.

    Attributes:
        call: the pass.
        logit_rows: [B, R].
    """

    call: Call
    logit_rows: Ids


class HostPasses(Passes[HostInputs]):
    """Passes of a model whose engine runs on the host.

    Args:
        engine: the model's graph.
        record: the model's size.
        buffers: the sizes of its buffers.
        images: N, the images decoded together.
        prefix: P, positions of the condition.
        samplers: draw without distributions, and with them where any method wants them.
        meter: where passes are booked.
    """

    def __init__(
        self,
        engine: Engine,
        record: ModelRecord,
        buffers: ModelBuffers,
        images: int,
        prefix: int,
        samplers: Mapping[bool, Sampler],
        meter: Meter,
    ) -> None:
        self.capacity = buffers.slots
        self._engine, self._record, self._meter = engine, record, meter
        self._samplers, self._sampler = samplers, samplers[False]
        self._images, self._prefix = images, prefix
        self._buckets = pass_buckets(record, buffers)
        batch, queries = 2 * images, max(buffers.queries, prefix)
        dtype = cache_spec(engine.inputs).dtype
        self._cache = CacheBuffers(record.layers, batch, record.heads, buffers.slots, record.head_dim, dtype)
        self._mask = np.zeros((batch if images > 1 else 1) * queries * buffers.slots, np.bool_)
        self._ids = np.zeros((3, batch * queries), np.int64)
        self._embeddings = np.zeros(batch * prefix * record.dim, dtype)
        self._write_index = np.zeros(batch, np.int64)
        declared = engine.inputs.keys() | engine.outputs.keys()
        self._hidden = {name: np.zeros(batch * queries * record.dim, dtype) for name in HIDDEN & declared}
        self._inputs: dict[tuple[int, int, int, int, int], HostInputs] = {}
        self._logit_rows: tuple[int, int, int] | None = None
        self._halves = 1

    @property
    def nbytes(self) -> int:
        """See `Passes.nbytes`."""
        own = (self._mask, self._ids, self._embeddings, self._write_index, *self._hidden.values())
        return self._cache.nbytes + sum(array.nbytes for array in own)

    def configure(self, sampling: Sampling, pool_k: int) -> None:
        """See `Passes.configure`."""
        self._sampler.configure(sampling, pool_k)

    def tell_distributions(self, told: bool) -> None:
        """See `Passes.tell_distributions`."""
        self._sampler = self._samplers[told]

    def hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """See `Passes.hidden`."""
        return _view(self._hidden["hidden"], halves, self._images, queries, self._record.dim)

    def previous_hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """See `Passes.previous_hidden`."""
        return _view(self._hidden["previous_hidden"], halves, self._images, queries, self._record.dim)

    def restart(self, halves: int) -> None:
        """See `Passes.restart`."""
        self._halves, self._logit_rows = halves, None
        self._cache.restart()

    def zero(self) -> None:
        """See `Passes.zero`."""
        self._cache.zero()

    def inputs(self, prefix: int, queries: int, rows: int, filled: int, first: int) -> HostInputs:
        """See `Passes.inputs`; the cache grows to hold what is filled."""
        slots = max(slot_bucket(filled, self.capacity), self._cache.slots)
        if slots != self._cache.slots:
            self._cache.grow(self._halves * self._images, slots)
        key = (self._halves, prefix, queries, rows, slots)
        if key not in self._inputs:
            self._inputs[key] = self._bind(*key)
        inputs = self._inputs[key]
        if self._logit_rows != (first, rows, prefix + queries):
            inputs.logit_rows[...] = np.minimum(np.arange(first, first + rows), prefix + queries - 1)
            self._logit_rows = (first, rows, prefix + queries)
        return inputs

    def run(self, inputs: HostInputs, queries: int, candidates: Ids | None, uniforms: NDArray[np.float32]) -> Draws:
        """See `Passes.run`; the draws are views that the next run overwrites."""
        self.extend(inputs, queries)
        draws = self._sampler.draw(self._halves, candidates, uniforms)
        check_finite(self._engine.name, np.add.reduce(draws.probability, axis=None))
        return draws

    def run_one(self, inputs: HostInputs, uniform: float) -> int:
        """See `Passes.run_one`."""
        self.extend(inputs, 1)
        drawn, probability = self._sampler.draw_one(self._halves, uniform)
        check_finite(self._engine.name, probability)
        return drawn

    def extend(self, inputs: HostInputs, queries: int) -> None:
        """See `Passes.extend`."""
        self._meter.run(self._engine.name, inputs.call, queries)

    def warm(self) -> None:
        """See `Passes.warm`; over as short a cache as there may be."""
        self.tell_distributions(False)
        for halves in (1, 2):
            self.restart(halves)
            self._run_blank(self._prefix, 0)
            for queries in self._buckets:
                self._run_blank(0, queries)

    def _run_blank(self, prefix: int, queries: int) -> None:
        rows = queries or 1
        inputs = self.inputs(prefix, queries, rows, prefix + queries, 0)
        inputs.blank()
        self.run(inputs, 0, None, np.zeros((self._images, rows), np.float32))

    def _bind(self, halves: int, prefix: int, queries: int, rows: int, slots: int) -> HostInputs:
        images, record = self._images, self._record
        batch, total = halves * images, prefix + queries
        mask = _view(self._mask, batch if images > 1 else 1, 1, total, slots)
        arrays: dict[str, NDArray[Any]] = {
            "cond_embeds": _view(self._embeddings, batch, prefix, record.dim),
            "token_ids": _view(self._ids[0], batch, queries),
            "position_ids": _view(self._ids[1], batch, total),
            "write_index": _view(self._write_index, batch),
            "attn_mask": mask,
            "logit_rows": _view(self._ids[2], batch, rows),
        }
        views = self._cache.views(batch, slots)
        outputs = {updated_name(name): view for name, view in views.items()}
        hidden = {name: _view(buffer, batch, total, record.dim) for name, buffer in self._hidden.items()}
        call = self._engine.bind({**arrays, **views, **outputs, **hidden, "logits": self._sampler.logits(batch, rows)})
        return HostInputs(
            call=call,
            token_ids=arrays["token_ids"].reshape(halves, images, queries),
            position_ids=arrays["position_ids"].reshape(halves, images, total),
            write_index=arrays["write_index"].reshape(halves, images),
            attn_mask=mask.reshape(1 if images == 1 else halves, images, total, slots),
            logit_rows=arrays["logit_rows"],
            cond_embeds=arrays["cond_embeds"],
        )


def _view(buffer: NDArray[Any], *shape: int) -> NDArray[Any]:
    return buffer[: np.prod(shape, dtype=np.int64)].reshape(shape)
