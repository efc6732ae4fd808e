"""Decoding by the target alone: token by token, or by ZipAR's staggered rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.steps import run_waves
from mulo_runtime.events import RowsDone
from mulo_runtime.lane import Lane
from mulo_runtime.regions import Order, island_order, published_zipar_order, raster_order
from mulo_runtime.settings import ZipAR
from mulo_runtime.waves import Wave, plan_waves

__all__ = ["decode_auto_regressive", "decode_zipar"]

_Plan = tuple[list[Wave], list[int]]
"""Waves, and the wave that draws the last token of each row."""


def decode_auto_regressive(lane: Lane, job: Job, outcome: Outcome) -> Iterator[RowsDone]:
    """Draw one token a pass in raster order: rows * cols passes, the condition's included."""
    return _decode(lane, job, outcome, *_plain_plan(*lane.grid))


def decode_zipar(lane: Lane, job: Job, outcome: Outcome, settings: ZipAR) -> Iterator[RowsDone]:
    """Draw one token of every open row a pass (ZipAR, arXiv 2412.04062)."""
    return _decode(lane, job, outcome, *_zipar_plan(*lane.grid, settings))


@lru_cache(maxsize=8)
def _plain_plan(rows: int, cols: int) -> _Plan:
    return _plan(raster_order(np.ones((rows, cols), np.bool_)))


@lru_cache(maxsize=8)
def _zipar_plan(rows: int, cols: int, settings: ZipAR) -> _Plan:
    """C + (R-1) W' waves pipelined, 2 C + (R-2) W' as published."""
    window = min(settings.window, cols)
    if settings.schedule == "published":
        return _plan(published_zipar_order(rows, cols, window))
    return _plan(island_order(np.ones((rows, cols), np.bool_), window))


def _plan(order: Order) -> _Plan:
    return plan_waves(order), order[:, -1].tolist()


def _decode(lane: Lane, job: Job, outcome: Outcome, plan: Sequence[Wave], ends: Sequence[int]) -> Iterator[RowsDone]:
    """Run `plan`, whose first wave draws token 0 from the condition; wave `ends[row]` draws the last token of a row.

    A job that is watched shows every row; another one is a single stretch.
    """
    images, rows = len(job.visible), lane.grid[0]
    shown = range(1, rows + 1) if job.watched else [rows]
    lane.meter.phase = "decode tokens"
    stretch = lane.stretch(lane.target, outcome.tokens, job.target_uniforms, job.guard)
    stretch.begin(job.condition("target"))
    done = 1
    for row in shown:
        stop = max(ends[row - 1] + 1, done)
        run_waves(stretch, [plan[done:stop]] * images)
        done = stop
        stretch.finish()
        yield RowsDone(row, lane.as_grid(outcome.tokens))
