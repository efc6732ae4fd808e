"""Two contenders timed in turn, so that a machine whose speed drifts is fair to both."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["interleaved"]


def interleaved(pairs: int, ours: Callable[[], float], theirs: Callable[[], float]) -> list[tuple[float, float]]:
    """Call both in turn, once to warm up and then `pairs` times; returns what they return, in seconds."""
    timed = [(ours(), theirs()) for _ in range(pairs + 1)]
    return timed[1:]
