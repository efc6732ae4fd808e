"""Work on one item after another, spread over the cores."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_ahead"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_ahead(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """`map`, whose next results are worked out in threads while the caller uses one; few of them are in memory.

    It pays for functions that let go of the interpreter's lock, as numpy's do.
    """
    cores = os.cpu_count() or 1
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
