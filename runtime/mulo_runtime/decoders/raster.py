"""Decoding by the target alone: token by token, or by ZipAR's staggered rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.decoders.steps import run_waves
from mulo_runtime.events import RowsDone
from mulo_runtime.lane import Lane
from mulo_runtime.regions import island_order, published_zipar_order, raster_order
from mulo_runtime.settings import ZipAR
from mulo_runtime.waves import Wave, plan_waves

__all__ = ["auto_regressive_plan", "decode_auto_regressive", "decode_zipar", "zipar_plan"]


def decode_auto_regressive(lane: Lane, job: Job, outcome: Outcome) -> Iterator[RowsDone]:
    """Draw one token a pass in raster order: rows * cols passes, the condition's included."""
    return _decode(lane, job, outcome, auto_regressive_plan(*lane.grid))


def decode_zipar(lane: Lane, job: Job, outcome: Outcome, settings: ZipAR) -> Iterator[RowsDone]:
    """Draw one token of every open row a pass (ZipAR, arXiv 2412.04062)."""
    return _decode(lane, job, outcome, zipar_plan(*lane.grid, settings))


@lru_cache(maxsize=8)
def auto_regressive_plan(rows: int, cols: int) -> list[Wave]:
    """The waves of plain decoding."""
    return plan_waves(raster_order(np.ones((rows, cols), np.bool_)))


@lru_cache(maxsize=8)
def zipar_plan(rows: int, cols: int, settings: ZipAR) -> list[Wave]:
    """The waves of ZipAR: C + (R-1) W' pipelined, 2 C + (R-2) W' as published."""
    window = min(settings.window, cols)
    if settings.schedule == "published":
        return plan_waves(published_zipar_order(rows, cols, window))
    return plan_waves(island_order(np.ones((rows, cols), np.bool_), window))


def _decode(lane: Lane, job: Job, outcome: Outcome, plan: Sequence[Wave]) -> Iterator[RowsDone]:
    """Run `plan`, whose first wave draws token 0 from the condition."""
    rows, cols = lane.grid
    images = len(job.visible)
    ends = _last_waves(plan, rows, cols)
    lane.meter.phase = "decode tokens"
    job.guard()
    first = lane.target.begin(job.target_embeds, job.visible, outcome.tokens[:, :1], job.target_uniforms[:, :1])
    outcome.tokens[:, :1] = first.tokens
    done = 0
    for step in run_waves(lane.target, outcome.tokens, [plan[1:]] * images, job.target_uniforms, job.guard):
        while done < rows and ends[done] <= step + 1:
            done += 1
            yield RowsDone(done, lane.as_grid(outcome.tokens))


def _last_waves(plan: Sequence[Wave], rows: int, cols: int) -> list[int]:
    """The wave that draws the last token of every row."""
    ends = [0] * rows
    for index, wave in enumerate(plan):
        for row in wave.targets // cols:
            ends[row] = index
    return ends
