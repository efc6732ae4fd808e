"""The drafter's side of a round: low-resolution rows, the candidates they become, and what verification teaches it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.decoders.job import Job
from mulo_runtime.decoders.steps import refeed, run_waves
from mulo_runtime.events import Drafted
from mulo_runtime.lane import Lane
from mulo_runtime.regions import island_order, raster_order
from mulo_runtime.settings import MuloSD
from mulo_runtime.waves import Wave, plan_waves

__all__ = ["Drafting"]

Grid = NDArray[np.int64]


class Drafting:
    """Drafts the low-resolution grid of N images, at once or as rounds need it.

    Attributes:
        drawn: tokens drawn so far, per image.
    """

    def __init__(self, lane: Lane, job: Job, settings: MuloSD) -> None:
        self._lane, self._job, self._settings = lane, job, settings
        self._rows, self._cols = lane.draft_grid
        self._tokens = np.zeros((len(job.visible), self._rows * self._cols), np.int64)
        self._drafted_rows = 0
        self._candidates: Grid | None = None

    @property
    def drawn(self) -> int:
        """Tokens drawn so far, per image."""
        return self._drafted_rows * self._cols

    def draft(self, rows: int) -> Iterator[Drafted]:
        """Have the first `rows` rows drafted, and those ahead of them that the upsampler wants to see."""
        whole = self._settings.draft == "image"
        wanted = self._rows if whole else min(rows + self._settings.look_ahead, self._rows)
        if wanted == self._drafted_rows:
            return
        plan = _plan(self._drafted_rows, wanted, self._cols, self._settings.draft_window)
        if self._drafted_rows == 0:
            self._begin()
            plan = plan[1:]
        job = self._job
        for _ in run_waves(
            self._lane.drafter, self._tokens, [plan] * len(self._tokens), job.drafter_uniforms, job.guard
        ):
            pass
        self._drafted_rows = wanted
        yield Drafted(wanted, self._grid().copy())

    def upsample(self, start: int, stop: int) -> Grid:
        """Candidates for low-resolution rows start .. stop-1; [N, (stop - start) * ratio, cols * ratio].

        A whole drafted image is upsampled once; rows are upsampled with `look_ahead` rows around them.
        """
        ratio, grid = self._lane.ratio, self._grid()
        if self._settings.draft == "image":
            if self._candidates is None:
                self._candidates = self._lane.upsampler.run(grid)
            return self._candidates[:, start * ratio : stop * ratio]
        above = max(start - self._settings.look_ahead, 0)
        candidates = self._lane.upsampler.run(grid[:, above : self._drafted_rows])
        return candidates[:, (start - above) * ratio : (stop - above) * ratio]

    def resynchronise(self, image_tokens: Grid, start: int, stop: int) -> None:
        """Replace rows start .. stop-1 by what became of them, and feed anew what follows the first change."""
        if self._settings.draft == "image" or not self._settings.resynchronise:
            return
        ratio = self._lane.ratio
        above = max(start - self._settings.look_ahead, 0)
        verified = self._lane.as_grid(image_tokens)[:, above * ratio : stop * ratio]
        rows = self._lane.downsampler.run(verified)[:, start - above :]
        begin, end = start * self._cols, stop * self._cols
        changed = self._tokens[:, begin:end] != rows.reshape(len(rows), -1)
        self._tokens[:, begin:end] = rows.reshape(len(rows), -1)
        # The last token is left out: the next row's first wave feeds it.
        last = self.drawn - 1
        spans = [range(begin + int(where.argmax()) if where.any() else last, last) for where in changed]
        refeed(self._lane.drafter, self._tokens, spans, self._lane.queries, self._job.guard)

    def _begin(self) -> None:
        job = self._job
        job.guard()
        first = self._lane.drafter.begin(job.embeds["drafter"], job.visible, None, job.drafter_uniforms[:, :1])
        self._tokens[:, :1] = first.tokens

    def _grid(self) -> Grid:
        return self._tokens.reshape(len(self._tokens), self._rows, self._cols)


@lru_cache(maxsize=64)
def _plan(start: int, stop: int, cols: int, window: int) -> list[Wave]:
    """The waves that draw rows start .. stop-1, serially where `window` is 0; the same for every image."""
    region = np.ones((stop - start, cols), np.bool_)
    return plan_waves(island_order(region, window) if window else raster_order(region), start)
