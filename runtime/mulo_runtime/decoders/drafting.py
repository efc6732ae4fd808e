"""The drafter's side of a round: low-resolution rows, the candidates they become, and what verification teaches it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.decoders.job import Job
from mulo_runtime.decoders.steps import extend_spans, run_waves
from mulo_runtime.lane import Lane
from mulo_runtime.regions import island_order, raster_order
from mulo_runtime.settings import MuloSD
from mulo_runtime.stretch import Stretch
from mulo_runtime.waves import Wave, plan_waves

__all__ = ["Drafting"]

Grid = NDArray[np.int64]


class Drafting:
    """Drafts the low-resolution grid of N images, at once or as rounds need it.

    Attributes:
        rows: rows drafted so far.
        drawn: tokens drawn so far, per image.
    """

    def __init__(self, lane: Lane, job: Job, settings: MuloSD) -> None:
        self._lane, self._job, self._settings = lane, job, settings
        self._rows, self._cols = lane.draft_grid
        self._tokens = np.zeros((len(job.visible), self._rows * self._cols), np.int64)
        self.rows = 0
        self._candidates: Grid | None = None

    @property
    def drawn(self) -> int:
        """Tokens drawn so far, per image."""
        return self.rows * self._cols

    def candidates(self, start: int, stop: int) -> Grid:
        """Draft what a round needs, and upsample rows start .. stop-1 of it; [N, rows * ratio, cols * ratio].

        A whole drafted image is upsampled once; rows are upsampled with `look_ahead` rows around them.
        """
        ratio = self._lane.ratio
        if self._settings.draft == "image":
            if self._candidates is None:
                self._candidates = self._draft(self._rows, 0)
            return self._candidates[:, start * ratio : stop * ratio]
        above = max(start - self._settings.look_ahead, 0)
        candidates = self._draft(min(stop + self._settings.look_ahead, self._rows), above)
        return candidates[:, (start - above) * ratio : (stop - above) * ratio]

    def resynchronise(self, verified: Grid, start: int, stop: int) -> None:
        """Replace rows start .. stop-1 by `verified` [N, rows, cols]; of each image, feed anew all from a change on."""
        begin, end = start * self._cols, stop * self._cols
        rows = verified.reshape(len(verified), -1)
        changed = self._tokens[:, begin:end] != rows
        self._tokens[:, begin:end] = rows
        # The last token is left out: the next row's first wave feeds it.
        last = self.drawn - 1
        spans = [range(begin + int(where.argmax()) if where.any() else last, last) for where in changed]
        extend_spans(self._stretch(), spans, self._lane.queries)

    @property
    def resynchronises(self) -> bool:
        """Whether the drafter learns from verified rows."""
        return self._settings.draft == "rows" and self._settings.resynchronise

    @property
    def grid(self) -> Grid:
        """The draft so far; [N, rows, cols], zero where nothing is drafted."""
        return self._tokens.reshape(len(self._tokens), self._rows, self._cols)

    def _draft(self, rows: int, above: int) -> Grid:
        """Have the first `rows` rows drafted, and upsample those from row `above` on."""
        lane, stretch = self._lane, self._stretch()
        lane.meter.phase = "draft"
        if rows > self.rows:
            plan = _plan(self.rows, rows, self._cols, self._settings.draft_window)
            if self.rows == 0:
                stretch.begin(self._job.condition("drafter"))
                plan = plan[1:]
            run_waves(stretch, [plan] * len(self._tokens))
            self.rows = rows
        lane.meter.phase = "upsample"
        candidates = stretch.map(lane.upsampler, above, rows, self._cols)
        lane.meter.phase = "draft"
        stretch.finish()
        return candidates

    def _stretch(self) -> Stretch:
        job = self._job
        return self._lane.stretch(self._lane.drafter, self._tokens, job.drafter_uniforms, job.guard)


@lru_cache(maxsize=64)
def _plan(start: int, stop: int, cols: int, window: int) -> list[Wave]:
    """The waves that draw rows start .. stop-1, serially where `window` is 0; the same for every image."""
    region = np.ones((stop - start, cols), np.bool_)
    return plan_waves(island_order(region, window) if window else raster_order(region), start)
