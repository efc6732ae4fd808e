"""The block of a pass: everything that the host says about it, in one piece, so that one copy takes it up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from mulo_engines.stream import DeviceArray
from numpy.typing import NDArray

from mulo_runtime.device.staging import aligned

__all__ = ["BlockLayout", "BlockSize", "block_layout"]

_INT, _FLOAT, _BOOL = np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.bool_)


@dataclass(frozen=True, slots=True)
class BlockSize:
    """What decides on the shapes of a pass, and so of its block.

    Attributes:
        images: N.
        halves: 2 with guidance, else 1.
        prefix: C.
        queries: Q.
        rows: R.
        slots: S.
        dim: D.
        embedding: type of the condition's embeddings.
        drawn: the most tokens per image that an earlier pass may have drawn.
    """

    images: int
    halves: int
    prefix: int
    queries: int
    rows: int
    slots: int
    dim: int
    embedding: np.dtype[Any]
    drawn: int


@dataclass(frozen=True, slots=True)
class _Field:
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Where the arrays of a pass lie in its block.

    Attributes:
        fields: the arrays by name; "writes", which not every pass needs as a whole, comes first in every block.
        size: bytes of the block.
    """

    fields: Mapping[str, _Field]
    size: int

    def host(self, name: str, block: NDArray[np.uint8]) -> NDArray[Any]:
        """The array `name` in a block in host memory."""
        field = self.fields[name]
        return np.ndarray(field.shape, field.dtype, block, field.offset)

    def device(self, name: str, block: DeviceArray) -> DeviceArray:
        """The array `name` in a block in the device's memory."""
        field = self.fields[name]
        return block.part(field.shape, dtype=field.dtype, offset=field.offset)


@lru_cache(maxsize=512)
def block_layout(size: BlockSize) -> BlockLayout:
    """Lay out the block of a pass; `token_ids` has room for both halves, for the token log always fills both."""
    images, batch, total = size.images, size.halves * size.images, size.prefix + size.queries
    masks = 1 if images == 1 else batch
    arrays: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "writes": (_INT, (images, size.drawn)),
        "token_ids": (_INT, (2 * images, size.queries)),
        "position_ids": (_INT, (batch, total)),
        "write_index": (_INT, (batch,)),
        "logit_rows": (_INT, (batch, size.rows)),
        "cond_embeds": (size.embedding, (batch, size.prefix, size.dim)),
        "candidate_ids": (_INT, (images, size.rows)),
        "uniforms": (_FLOAT, (images, size.rows)),
        "reads": (_INT, (images, size.queries)),
        "attn_mask": (_BOOL, (masks, 1, total, size.slots)),
    }
    fields, offset = dict[str, _Field](), 0
    for name, (dtype, shape) in arrays.items():
        fields[name] = _Field(offset, dtype, shape)
        offset += aligned(prod(shape) * dtype.itemsize)
    return BlockLayout(fields, offset)
