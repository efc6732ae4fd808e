"""One transformer of a lane: feeds queries through its engine, writes its cache log and draws tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from mulo_engines.buckets import query_bucket, slot_bucket
from mulo_engines.engine import Call, Engine
from mulo_engines.errors import NonFiniteError, ShapeError
from mulo_engines.manifest import ModelRecord
from mulo_engines.memory import ModelBuffers
from numpy.typing import NDArray

from mulo_runtime.cache import CacheBuffers
from mulo_runtime.meter import Meter
from mulo_runtime.sampler import Draws, Sampler, SamplerBuffers
from mulo_runtime.slots import SlotTable

__all__ = ["Branching", "CachedModel"]

Ids = NDArray[np.int64]

_HIDDEN = {"hidden", "previous_hidden"}
"""Inputs and outputs that a head, and a target that has one, have beside those of every model."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The arrays that a pass of one size reads; written in place before each run.

    Attributes:
        call: the pass.
        token_ids: [halves, N, Q]; the null half reads what the conditional half reads.
        position_ids: [halves, N, T].
        write_index: [halves, N].
        attn_mask: [halves, N, T, S]; of one half for a single image, where the mask is broadcast.
        logit_rows: [B, R].
        cond_embeds: [B, C, D].
    """

    call: Call
    token_ids: Ids
    position_ids: Ids
    write_index: Ids
    attn_mask: NDArray[np.bool_]
    logit_rows: Ids
    cond_embeds: NDArray[Any]


class Branching(NamedTuple):
    """How the drafted queries of a pass, the last of each image, see each other.

    Attributes:
        roots: per image, the image position up to which each drafted query sees what is decided; [drafted].
        visible: per image, which of the last slots each drafted query may attend to, the last of them its own pass's;
            [drafted, span].
    """

    roots: Sequence[Ids]
    visible: Sequence[NDArray[np.bool_]]


class CachedModel:
    """A drafter or a target on buffers that are allocated once.

    Image tokens are known by their index in raster order, 0 .. N-1; their sequence positions begin after the prefix.

    Args:
        name: "drafter" or "target", the graph's name among `engines`.
        record: the model's size.
        buffers: the sizes of its buffers.
        engines: every graph by name.
        images: N, the images decoded together.
        prefix: P, positions of the condition.
        sampler_buffers: where passes write logits, and the sampler what it makes of them.
        meter: where passes are booked.

    Attributes:
        slots: what lies where in the log.
        sampler: draws the tokens.
    """

    def __init__(
        self,
        name: str,
        record: ModelRecord,
        buffers: ModelBuffers,
        engines: Mapping[str, Engine],
        images: int,
        prefix: int,
        sampler_buffers: SamplerBuffers,
        meter: Meter,
    ) -> None:
        self.slots = SlotTable(images, buffers.slots, prefix + record.rows * record.cols)
        self.sampler = Sampler(engines["sampler"], sampler_buffers, meter)
        self._engine, self._record, self._meter = engines[name], record, meter
        self._images, self._prefix, self._capacity = images, prefix, buffers.slots
        batch, queries = 2 * images, max(buffers.queries, prefix)
        dtype = self._engine.inputs["k_cache.0"].dtype
        self._cache = CacheBuffers(record.layers, batch, record.heads, buffers.slots, record.head_dim, dtype)
        self._mask = np.zeros((batch if images > 1 else 1) * queries * buffers.slots, np.bool_)
        self._ids = np.zeros((3, batch * queries), np.int64)
        self._logit_rows: tuple[int, int, int] | None = None
        self._embeddings = np.zeros(batch * prefix * record.dim, dtype)
        self._write_index = np.zeros(batch, np.int64)
        declared = self._engine.inputs.keys() | self._engine.outputs.keys()
        self._hidden = {name: np.zeros(batch * queries * record.dim, dtype) for name in _HIDDEN & declared}
        self._inputs: dict[tuple[int, int, int, int, int], _Inputs] = {}
        self._cursor = [0] * images
        self._halves = 1

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers that this model owns."""
        own = (self._mask, self._ids, self._embeddings, self._write_index, *self._hidden.values())
        return self._cache.nbytes + sum(array.nbytes for array in own)

    def reset(self) -> None:
        """Zero the cache, after a pass that may have left anything in it."""
        self._cache.zero()

    def begin(
        self,
        cond_embeds: NDArray[Any],
        visible: NDArray[np.bool_],
        candidates: Ids | None,
        uniforms: NDArray[np.float32],
    ) -> Draws:
        """Start new images: feed the condition and draw token 0.

        Args:
            cond_embeds: [B, P, D]; B = 2 N with guidance, else N.
            visible: which condition positions may be attended to; [N, P].
            candidates: the candidate for token 0; [N, 1]; None where there is none.
            uniforms: the number that draws token 0; [N, 1].
        """
        images, prefix = visible.shape
        self._halves = len(cond_embeds) // images
        self.slots.clear()
        self._cache.restart()
        self._cursor = [0] * images
        inputs = self._bound(prefix, 0, 1, prefix)
        inputs.cond_embeds[...] = cond_embeds
        inputs.position_ids[...] = np.arange(prefix)
        inputs.write_index.fill(0)
        inputs.logit_rows.fill(prefix - 1)
        self._logit_rows = None
        for image in range(images):
            self._place_prefix(inputs.attn_mask[0, image], image, visible[image])
        inputs.attn_mask[1:] = inputs.attn_mask[0]
        self._cursor = [prefix] * images
        return self._run(inputs, images * prefix, candidates, uniforms)

    def feed(
        self,
        tokens: Ids,
        positions: Ids,
        counts: Sequence[int],
        candidates: Ids | None,
        uniforms: NDArray[np.float32],
        first: int = 0,
        branching: Branching | None = None,
    ) -> Draws:
        """Append queries to the log and draw from the logits of queries first, first+1, ...

        Args:
            tokens: tokens to feed; [N, T].
            positions: their image positions; [N, T].
            counts: how many of the T belong to each image; the rest is padding; [N].
            candidates: candidates for the drawn positions; [N, R]; None where there are none.
            uniforms: the numbers that draw; [N, R].
            first: index of the first query that gets logits.
            branching: of the last queries of each image, if they do not all follow each other.

        Raises:
            NonFiniteError: the engine's logits are not finite.
            ShapeError: the log is full.
        """
        queries = tokens.shape[1]
        rows = query_bucket(uniforms.shape[1])
        bucket = query_bucket(queries)
        inputs = self._bound(0, bucket, rows, max(self._cursor) + bucket)
        self._select_logits(inputs, first, rows, bucket)
        for image, count in enumerate(counts):
            at = positions[image, :count] + self._prefix
            if branching is None:
                self._place(inputs, image, tokens[image, :count], at)
            else:
                self._place_branches(inputs, image, tokens[image, :count], at, branching)
        if len(inputs.attn_mask) > 1:
            inputs.attn_mask[1:] = inputs.attn_mask[0]
        draws = self._run(inputs, sum(counts), candidates, uniforms)
        self._cursor = [cursor + count for cursor, count in zip(self._cursor, counts, strict=True)]
        return draws

    def step(self, token: int, position: int, uniform: float) -> int:
        """Append one token of a lone image to the log and draw the next: `feed` without arrays of one element.

        Args:
            token: the token to feed.
            position: its image position.
            uniform: the number that draws.

        Raises:
            NonFiniteError, ShapeError: see `feed`.
        """
        (cursor,) = self._cursor
        inputs = self._bound(0, 1, 1, cursor + 1)
        self._select_logits(inputs, 0, 1, 1)
        at = position + self._prefix
        self.slots.write_one(0, cursor, at)
        self.slots.mask_one(0, at, inputs.attn_mask[0, 0, 0])
        inputs.token_ids.fill(token)
        inputs.position_ids.fill(at)
        inputs.write_index.fill(cursor)
        self._meter.run(self._engine.name, inputs.call, 1)
        drawn, probability = self.sampler.draw_one(self._halves, uniform)
        self._check_finite(probability)
        self._cursor[0] = cursor + 1
        return drawn

    def hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """What a pass of T queries, padding included, says of hidden states, if the graph does; [halves, N, T, D]."""
        return _view(self._hidden["hidden"], halves, self._images, queries, self._record.dim)

    def previous_hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """Where a pass of T queries of a head reads the hidden state before each of them; [halves, N, T, D]."""
        return _view(self._hidden["previous_hidden"], halves, self._images, queries, self._record.dim)

    def rewind(self, token: int) -> None:
        """Let the next `feed` overwrite the log from image token `token` on.

        The caller refeeds everything from there on; everything before must lie in the log in raster order.
        """
        self._cursor = [self._prefix + token] * len(self._cursor)

    def rewind_each(self, tokens: Ids) -> None:
        """`rewind` every image to a token of its own; [N]."""
        self._cursor = [self._prefix + int(token) for token in tokens]

    def forget(self, drafted: Sequence[int]) -> None:
        """Let the next `feed` overwrite the last queries of each image, which were drafted."""
        self._cursor = [cursor - count for cursor, count in zip(self._cursor, drafted, strict=True)]

    def hide(self, image: int, positions: Ids) -> None:
        """Hide image tokens `positions` until they are fed again."""
        self.slots.retire(image, positions + self._prefix)

    def _select_logits(self, inputs: _Inputs, first: int, rows: int, queries: int) -> None:
        """Ask for the logits of `rows` queries from `first` on, unless the last pass asked for the same."""
        if self._logit_rows != (first, rows, queries):
            inputs.logit_rows[...] = np.minimum(np.arange(first, first + rows), queries - 1)
            self._logit_rows = (first, rows, queries)

    def _place_prefix(self, mask: NDArray[np.bool_], image: int, visible: NDArray[np.bool_]) -> None:
        positions = np.arange(len(visible))
        self.slots.write(image, 0, positions)
        self.slots.retire(image, positions[~visible])
        self.slots.mask(image, positions, mask)
        mask[positions, positions] = True

    def _place(self, inputs: _Inputs, image: int, tokens: Ids, positions: Ids, drafted: int = 0) -> None:
        """Write the queries of one image into the inputs; padding sees only itself and its slot stays empty.

        So do the slots of the last `drafted` queries.
        """
        count, start = len(tokens), self._cursor[image]
        self.slots.write(image, start, positions[: count - drafted])
        ids, places, mask = inputs.token_ids[:, image], inputs.position_ids[:, image], inputs.attn_mask[0, image]
        ids[:, :count], places[:, :count] = tokens, positions
        self.slots.mask(image, positions, mask[:count])
        padding = len(mask) - count
        if padding:
            ids[:, count:], places[:, count:] = (tokens[-1], positions[-1]) if count else (0, self._prefix)
            mask[count:] = False
            own = np.arange(count, len(mask))
            mask[own, start + own] = True
        inputs.write_index[:, image] = start

    def _place_branches(self, inputs: _Inputs, image: int, tokens: Ids, positions: Ids, branching: Branching) -> None:
        """As `_place`, but the last queries are drafted: each sees its branch, and their slots stay empty."""
        visible = branching.visible[image]
        drafted, span = visible.shape
        seen = positions.copy()
        seen[len(tokens) - drafted :] = branching.roots[image] + self._prefix
        self._place(inputs, image, tokens, seen, drafted)
        inputs.position_ids[:, image, : len(tokens)] = positions
        end = self._cursor[image] + len(tokens)
        inputs.attn_mask[0, image, len(tokens) - drafted : len(tokens), end - span : end] = visible

    def _run(self, inputs: _Inputs, queries: int, candidates: Ids | None, uniforms: NDArray[np.float32]) -> Draws:
        self._meter.run(self._engine.name, inputs.call, queries)
        draws = self.sampler.draw(self._halves, candidates, uniforms)
        self._check_finite(np.add.reduce(draws.probability, axis=None))
        return draws

    def _check_finite(self, probability: float) -> None:
        if not isfinite(probability):
            raise NonFiniteError(
                f"{self._engine.name}: the logits are not finite",
                expected="finite logits",
                fix="export with a wider precision (fp32 or bf16), or check the checkpoint",
            )

    def _bound(self, prefix: int, queries: int, rows: int, filled: int) -> _Inputs:
        """The inputs of a pass of this size, over a cache that has grown to hold `filled` slots."""
        if filled > self._capacity:
            raise ShapeError(
                f"{self._engine.name}: the log is full", found=f"{filled} slots", expected=f"{self._capacity} slots"
            )
        slots = max(slot_bucket(filled, self._capacity), self._cache.slots)
        if slots != self._cache.slots:
            self._cache.grow(self._halves * self._images, slots)
        key = (self._halves, prefix, queries, rows, slots)
        if key not in self._inputs:
            self._inputs[key] = self._bind(*key)
        return self._inputs[key]

    def _bind(self, halves: int, prefix: int, queries: int, rows: int, slots: int) -> _Inputs:
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
        outputs = {name.replace("_cache.", "_cache_out."): view for name, view in views.items()}
        logits = self.sampler.logits(batch, rows)
        hidden = {name: _view(buffer, batch, total, record.dim) for name, buffer in self._hidden.items()}
        call = self._engine.bind({**arrays, **views, **outputs, **hidden, "logits": logits})
        shared = 1 if images == 1 else halves
        return _Inputs(
            call=call,
            token_ids=arrays["token_ids"].reshape(halves, images, queries),
            position_ids=arrays["position_ids"].reshape(halves, images, total),
            write_index=arrays["write_index"].reshape(halves, images),
            attn_mask=mask.reshape(shared, images, total, slots),
            logit_rows=arrays["logit_rows"],
            cond_embeds=arrays["cond_embeds"],
        )


def _view(buffer: NDArray[Any], *shape: int) -> NDArray[Any]:
    return buffer[: np.prod(shape, dtype=np.int64)].reshape(shape)
