"""Passes on a device: their inputs go up in one copy, and what they draw stays there until it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mulo_engines.cache_slots import pass_buckets
from mulo_engines.cache_tensors import cache_names, cache_spec, updated_name
from mulo_engines.engine import Call, Engine
from mulo_engines.errors import RequestError
from mulo_engines.manifest import ModelRecord
from mulo_engines.memory import ModelBuffers
from mulo_engines.stream import DeviceArray, Stream
from numpy.typing import NDArray

from mulo_runtime.device.block import BlockSize, block_layout
from mulo_runtime.device.inputs import DeviceInputs, staged_inputs
from mulo_runtime.device.results import Results
from mulo_runtime.device.sampler import DeviceDraws, DeviceSampler, Scalars
from mulo_runtime.device.staging import Staging
from mulo_runtime.device.token_log import TokenLog
from mulo_runtime.meter import Meter
from mulo_runtime.passes import HIDDEN, Ids, Passes, check_finite
from mulo_runtime.sampler import Draws
from mulo_runtime.settings import Sampling

__all__ = ["DevicePasses", "Transfers"]


@dataclass(frozen=True, slots=True)
class Transfers:
    """What the models of a lane send and fetch by, one at a time.

    Attributes:
        stream: the lane's.
        staging: what is on the way up.
        block: where it arrives; a pass has read it before the next one's arrives.
        results: what comes back.
    """

    stream: Stream
    staging: Staging
    block: DeviceArray
    results: Results


@dataclass(frozen=True, slots=True)
class _Calls:
    model: Call
    sampler: Call


class DevicePasses(Passes[DeviceInputs]):
    """Passes of a model whose engine runs on a device, over the whole cache.

    Args:
        engine: the model's graph.
        record: the model's size.
        buffers: the sizes of its buffers.
        images: N.
        prefix: P.
        sampler: draws.
        log: the model's tokens.
        transfers: the lane's.
        meter: where passes are booked.

    Attributes:
        log: the model's tokens.
        transfers: the lane's.
    """

    def __init__(
        self,
        engine: Engine,
        record: ModelRecord,
        buffers: ModelBuffers,
        images: int,
        prefix: int,
        sampler: DeviceSampler,
        log: TokenLog,
        transfers: Transfers,
        meter: Meter,
    ) -> None:
        self.capacity, self.log, self.transfers = buffers.slots, log, transfers
        self._engine, self._record, self._buffers = engine, record, buffers
        self._images, self._prefix, self._sampler, self._meter = images, prefix, sampler, meter
        self._scalars = Scalars(transfers.stream)
        self._dtype = cache_spec(engine.inputs).dtype
        size = 2 * images * record.heads * buffers.slots * record.head_dim
        self._caches = {name: transfers.stream.zeros((size,), self._dtype) for name in cache_names(record.layers)}
        # A target with a head tells hidden states, which nobody reads here.
        told = HIDDEN & engine.outputs.keys()
        states = 2 * images * max(buffers.queries, prefix) * record.dim
        self._hidden = {name: transfers.stream.zeros((states,), self._dtype) for name in told}
        self._calls: dict[BlockSize, _Calls] = {}
        self._halves = 1

    @property
    def nbytes(self) -> int:
        """See `Passes.nbytes`."""
        return sum(array.nbytes for array in (*self._caches.values(), *self._hidden.values()))

    def configure(self, sampling: Sampling, pool_k: int) -> None:
        """See `Passes.configure`."""
        self._scalars.configure(sampling, pool_k)

    def tell_distributions(self, told: bool) -> None:
        """See `Passes.tell_distributions`; whole distributions stay on the device."""
        if told:
            raise _host_only()

    def hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """See `Passes.hidden`."""
        raise _host_only()

    def previous_hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """See `Passes.previous_hidden`."""
        raise _host_only()

    def restart(self, halves: int) -> None:
        """See `Passes.restart`."""
        self._halves = halves

    def zero(self) -> None:
        """See `Passes.zero`."""
        for cache in self._caches.values():
            self.transfers.stream.clear(cache)

    def inputs(self, prefix: int, queries: int, rows: int, filled: int, first: int) -> DeviceInputs:
        """See `Passes.inputs`; every query from the first one on gets logits, so that a bucket has one form."""
        size = self._size(prefix, queries)
        layout, last = block_layout(size), prefix + queries - 1
        staged = self.transfers.staging.take(layout.size)
        logit_rows = layout.host("logit_rows", staged)
        logit_rows[...] = first if size.rows == 1 else np.minimum(np.arange(first, first + size.rows), last)
        return staged_inputs(size, layout, staged)

    def run(self, inputs: DeviceInputs, queries: int, candidates: Ids | None, uniforms: NDArray[np.float32]) -> Draws:
        """See `Passes.run`; reads back."""
        draws = self.read(self.enqueue(inputs, queries, candidates, uniforms))
        self.transfers.results.wait()
        check_finite(self._engine.name, np.add.reduce(draws.probability, axis=None))
        return draws.part(0, uniforms.shape[1])

    def run_one(self, inputs: DeviceInputs, uniform: float) -> int:
        """See `Passes.run_one`; reads back."""
        return self.run(inputs, 1, None, np.full((1, 1), uniform, np.float32)).tokens.item()

    def extend(self, inputs: DeviceInputs, queries: int) -> None:
        """See `Passes.extend`."""
        self._send(inputs, from_log=False)
        self._meter.run(self._engine.name, self._bound(inputs.size).model, queries)
        self.transfers.staging.commit()

    def enqueue(
        self,
        inputs: DeviceInputs,
        queries: int,
        candidates: Ids | None,
        uniforms: NDArray[np.float32],
        *,
        from_log: bool = False,
    ) -> DeviceDraws:
        """Enqueue a pass and its draw; see `Passes.run`.

        With `from_log`, what is fed is read in the token log, at `inputs.reads`, once what is pending is written there.
        """
        wanted = uniforms.shape[1]
        inputs.uniforms[:, :wanted], inputs.uniforms[:, wanted:] = uniforms, 0
        inputs.candidates[:, :wanted], inputs.candidates[:, wanted:] = 0 if candidates is None else candidates, 0
        bound = self._bound(inputs.size)
        self._send(inputs, from_log=from_log)
        self._meter.run(self._engine.name, bound.model, queries)
        self._meter.run(self._sampler.name, bound.sampler, self._images * wanted)
        self.transfers.staging.commit()
        return self._sampler.draws(inputs.size.rows)

    def read(self, made: DeviceDraws) -> Draws:
        """Fetch what a pass draws; it counts once the lane's results have been waited for."""
        results = self.transfers.results
        return Draws(results.read(made.tokens), results.read(made.probability), results.read(made.mass))

    def warm(self) -> None:
        """See `Passes.warm`; with the writing and reading of tokens that comes before each."""
        buckets = pass_buckets(self._record, self._buffers)
        for halves in (1, 2):
            self.restart(halves)
            self.log.restart()
            self._run_blank(self._prefix, 0, from_log=False)
            for queries, others in zip(buckets, [*buckets[1:], buckets[0]], strict=True):
                # Twice, for there are two logs in turn.
                for drawn in (queries, others, queries, others):
                    self.log.pending = np.full((self._images, drawn), self.log.spare, np.int64)
                    self._run_blank(0, queries, from_log=True)
        self.zero()
        self.transfers.results.wait()

    def _run_blank(self, prefix: int, queries: int, *, from_log: bool) -> None:
        inputs = self.inputs(prefix, queries, 1, 0, 0)
        inputs.blank()
        inputs.reads.fill(0)
        uniforms = np.zeros((self._images, inputs.size.rows), np.float32)
        self.enqueue(inputs, 0, None, uniforms, from_log=from_log)

    def load(self, tokens: Ids) -> None:
        """Put `tokens` [N, rows * cols] into the token log."""
        self.log.restart()
        device = self.log.tokens
        staged = self.transfers.staging.take(device.nbytes)
        images = staged.view(np.int64).reshape(device.shape)
        images[:, :-1], images[:, -1:] = tokens, 0
        self.transfers.stream.upload(device, staged)
        self.transfers.staging.commit()

    def settle(self) -> None:
        """Have everything drawn written into the token log."""
        pending, transfers = self.log.pending, self.transfers
        if self.log.settled:
            return
        staged = transfers.staging.take(pending.nbytes)
        staged[...] = pending.reshape(-1).view(np.uint8)
        writes = self._writes()
        transfers.stream.upload(writes, staged)
        self.log.settle(writes)
        transfers.staging.commit()

    def _send(self, inputs: DeviceInputs, *, from_log: bool) -> None:
        """Enqueue what comes before a pass: its block goes up, and its tokens are read in the log."""
        layout, block = block_layout(inputs.size), self.transfers.block
        if from_log:
            pending = self.log.pending
            inputs.staged[: pending.nbytes] = pending.reshape(-1).view(np.uint8)
        self.transfers.stream.upload(block.part((layout.size,)), inputs.staged)
        if from_log:
            self.log.advance(self._writes(), layout.device("reads", block), layout.device("token_ids", block))

    def _writes(self) -> DeviceArray:
        """Where in the block the positions of what is pending lie."""
        pending = self.log.pending
        return self.transfers.block.part(pending.shape, dtype=pending.dtype)

    def _size(self, prefix: int, queries: int) -> BlockSize:
        return BlockSize(
            images=self._images,
            halves=self._halves,
            prefix=prefix,
            queries=queries,
            rows=queries or 1,
            slots=self.capacity,
            dim=self._record.dim,
            embedding=self._dtype,
            drawn=self._buffers.queries,
        )

    def _bound(self, size: BlockSize) -> _Calls:
        if size not in self._calls:
            self._calls[size] = self._bind(size)
        return self._calls[size]

    def _bind(self, size: BlockSize) -> _Calls:
        layout, block, batch = block_layout(size), self.transfers.block, size.halves * size.images
        shape = (batch, self._record.heads, size.slots, self._record.head_dim)
        caches = {name: cache.part(shape) for name, cache in self._caches.items()}
        updated = {updated_name(name): cache for name, cache in caches.items()}
        inputs = {name: layout.device(name, block) for name in _MODEL_INPUTS}
        inputs["token_ids"] = inputs["token_ids"].part((batch, size.queries))
        states = (batch, size.prefix + size.queries, size.dim)
        outputs = {name: array.part(states) for name, array in self._hidden.items()}
        outputs["logits"] = self._sampler.logits(batch, size.rows)
        model = self._engine.bind({**inputs, **caches, **updated, **outputs})
        candidates, uniforms = (layout.device(name, block) for name in ("candidate_ids", "uniforms"))
        return _Calls(model, self._sampler.bind(batch, candidates, uniforms, self._scalars))


def _host_only() -> RequestError:
    return RequestError(
        "methods that decide by whole distributions decode on the host alone",
        expected="ar, zipar or mulo-sd",
        fix="choose one of them, or open the pipeline with backend='onnxruntime'",
    )


_MODEL_INPUTS = ("token_ids", "position_ids", "write_index", "logit_rows", "cond_embeds", "attn_mask")
