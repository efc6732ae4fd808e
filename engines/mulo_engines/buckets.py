"""Sizes to which the queries of a pass and the bound part of the cache are rounded up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["QUERY_BUCKETS", "SLOT_STEP", "query_bucket", "query_buckets", "slot_bucket", "widest_pass"]

QUERY_BUCKETS: Sequence[int] = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Queries of one pass; beyond the last, multiples of it."""

SLOT_STEP = 128
"""The bound cache grows by this many slots: attending to less is worth more than growing costs."""


def query_bucket(queries: int) -> int:
    """The smallest bucket that holds `queries`."""
    largest = QUERY_BUCKETS[-1]
    if queries > largest:
        return -(-queries // largest) * largest
    return QUERY_BUCKETS[bisect_left(QUERY_BUCKETS, queries)]


def query_buckets(queries: int) -> list[int]:
    """Every bucket that passes of at most `queries` queries are rounded up to, in order."""
    largest = QUERY_BUCKETS[-1]
    multiples = range(2 * largest, query_bucket(queries) + 1, largest)
    return [bucket for bucket in (*QUERY_BUCKETS, *multiples) if bucket <= query_bucket(queries)]


def widest_pass(positions: int) -> int:
    """Queries of a pass at most, in a graph of so many positions: one that verifies a tree may try two for each."""
    return 2 * positions


def slot_bucket(slots: int, capacity: int) -> int:
    """The bound part of the cache for `slots` filled slots of a cache of `capacity`."""
    return min(-(-slots // SLOT_STEP) * SLOT_STEP, capacity)
