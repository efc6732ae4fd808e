"""One transformer of a lane: what is fed lands in its log, and every query sees what it may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from mulo_engines.buckets import query_bucket
from mulo_engines.errors import ShapeError
from mulo_engines.manifest import ModelRecord
from numpy.typing import NDArray

from mulo_runtime.passes import Ids, Passes, PassInputs
from mulo_runtime.sampler import Draws
from mulo_runtime.slots import SlotTable

__all__ = ["Branching", "CachedModel"]


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
        name: "drafter" or "target".
        record: the model's size.
        images: N, the images decoded together.
        prefix: P, positions of the condition.
        passes: run what is placed here.

    Attributes:
        name: "drafter" or "target".
        slots: what lies where in the log.
        passes: run what is placed here.
    """

    def __init__(self, name: str, record: ModelRecord, images: int, prefix: int, passes: Passes[Any]) -> None:
        self.passes = passes
        self.slots = SlotTable(images, passes.capacity, prefix + record.rows * record.cols)
        self.name, self._prefix = name, prefix
        self._cursor = [0] * images

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers that this model owns."""
        return self.passes.nbytes

    def reset(self) -> None:
        """Zero the cache, after a pass that may have left anything in it."""
        self.passes.zero()

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
        inputs = self.place_condition(cond_embeds, visible)
        return self.passes.run(inputs, visible.size, candidates, uniforms)

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
        inputs = self.place(tokens, positions, counts, query_bucket(uniforms.shape[1]), first, branching)
        return self.passes.run(inputs, sum(counts), candidates, uniforms)

    def extend(self, tokens: Ids, positions: Ids, counts: Sequence[int]) -> None:
        """Append queries to the log and draw nothing; see `feed`."""
        self.passes.extend(self.place(tokens, positions, counts, rows=1), sum(counts))

    def step(self, token: int, position: int, uniform: float) -> int:
        """Append one token of a lone image to the log and draw the next: `feed` without arrays of one element.

        Args:
            token: the token to feed.
            position: its image position.
            uniform: the number that draws.

        Raises:
            NonFiniteError, ShapeError: see `feed`.
        """
        return self.passes.run_one(self.place_one(token, position), uniform)

    def hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """See `Passes.hidden`."""
        return self.passes.hidden(halves, queries)

    def previous_hidden(self, halves: int, queries: int) -> NDArray[Any]:
        """See `Passes.previous_hidden`."""
        return self.passes.previous_hidden(halves, queries)

    def rewind(self, token: int) -> None:
        """Let the next pass overwrite the log from image token `token` on.

        The caller refeeds everything from there on; everything before must lie in the log in raster order.
        """
        self._cursor = [self._prefix + token] * len(self._cursor)

    def rewind_each(self, tokens: Ids) -> None:
        """`rewind` every image to a token of its own; [N]."""
        self._cursor = [self._prefix + int(token) for token in tokens]

    def forget(self, drafted: Sequence[int]) -> None:
        """Let the next pass overwrite the last queries of each image, which were drafted."""
        self._cursor = [cursor - count for cursor, count in zip(self._cursor, drafted, strict=True)]

    def hide(self, image: int, positions: Ids) -> None:
        """Hide image tokens `positions` until they are fed again."""
        self.slots.retire(image, positions + self._prefix)

    def place_condition(self, cond_embeds: NDArray[Any], visible: NDArray[np.bool_]) -> PassInputs:
        """Empty the log, put the condition into it, and write the inputs of its pass; see `begin`."""
        images, prefix = visible.shape
        self.slots.clear()
        self.passes.restart(len(cond_embeds) // images)
        inputs: PassInputs = self.passes.inputs(prefix, 0, 1, prefix, prefix - 1)
        inputs.cond_embeds[...] = cond_embeds
        inputs.position_ids[...] = np.arange(prefix)
        inputs.write_index.fill(0)
        for image in range(images):
            self._place_prefix(inputs.attn_mask[0, image], image, visible[image])
        inputs.attn_mask[1:] = inputs.attn_mask[0]
        self._cursor = [prefix] * images
        return inputs

    def place(
        self,
        tokens: Ids,
        positions: Ids,
        counts: Sequence[int],
        rows: int,
        first: int = 0,
        branching: Branching | None = None,
    ) -> PassInputs:
        """Append queries to the log and write the inputs of their pass; see `feed`. R is `rows`, a bucket."""
        bucket = query_bucket(tokens.shape[1])
        inputs: PassInputs = self.passes.inputs(0, bucket, rows, self._filled(bucket), first)
        for image, count in enumerate(counts):
            at = positions[image, :count] + self._prefix
            if branching is None:
                self._place(inputs, image, tokens[image, :count], at)
            else:
                self._place_branches(inputs, image, tokens[image, :count], at, branching)
        if len(inputs.attn_mask) > 1:
            inputs.attn_mask[1:] = inputs.attn_mask[0]
        self._cursor = [cursor + count for cursor, count in zip(self._cursor, counts, strict=True)]
        return inputs

    def place_one(self, token: int, position: int) -> PassInputs:
        """Append one token of a lone image to the log and write the inputs of its pass; see `step`."""
        (cursor,) = self._cursor
        inputs: PassInputs = self.passes.inputs(0, 1, 1, self._filled(1), 0)
        at = position + self._prefix
        self.slots.write_one(0, cursor, at)
        self.slots.mask_one(0, at, inputs.attn_mask[0, 0, 0])
        inputs.token_ids.fill(token)
        inputs.position_ids.fill(at)
        inputs.write_index.fill(cursor)
        self._cursor[0] = cursor + 1
        return inputs

    def _filled(self, queries: int) -> int:
        """Slots that are written after a pass of `queries`."""
        filled = max(self._cursor) + queries
        if filled > self.passes.capacity:
            raise ShapeError(
                f"{self.name}: the log is full", found=f"{filled} slots", expected=f"{self.passes.capacity} slots"
            )
        return filled

    def _place_prefix(self, mask: NDArray[np.bool_], image: int, visible: NDArray[np.bool_]) -> None:
        positions = np.arange(len(visible))
        self.slots.write(image, 0, positions)
        self.slots.retire(image, positions[~visible])
        self.slots.mask(image, positions, mask)
        mask[positions, positions] = True

    def _place_branches(
        self, inputs: PassInputs, image: int, tokens: Ids, positions: Ids, branching: Branching
    ) -> None:
        """As `_place`, but the last queries are drafted: each sees its branch, and their slots stay empty."""
        visible = branching.visible[image]
        drafted, span = visible.shape
        seen = positions.copy()
        seen[len(tokens) - drafted :] = branching.roots[image] + self._prefix
        self._place(inputs, image, tokens, seen, drafted)
        inputs.position_ids[:, image, : len(tokens)] = positions
        end = self._cursor[image] + len(tokens)
        inputs.attn_mask[0, image, len(tokens) - drafted : len(tokens), end - span : end] = visible

    def _place(self, inputs: PassInputs, image: int, tokens: Ids, positions: Ids, drafted: int = 0) -> None:
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
