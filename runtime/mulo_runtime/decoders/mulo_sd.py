"""Multi-scale local speculative decoding (MuLo-SD, arXiv 2601.05149): draft, upsample, verify, resample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance import PooledMass
from mulo_runtime.decoders.drafting import Drafting
from mulo_runtime.decoders.job import Accept, Job, Outcome
from mulo_runtime.decoders.steps import run_waves, verify_span
from mulo_runtime.events import Drafted, Event, RowsDone, Verified
from mulo_runtime.lane import Lane
from mulo_runtime.regions import expand, island_order, raster_order, rejected_from_first
from mulo_runtime.sampler import Draws
from mulo_runtime.settings import MuloSD
from mulo_runtime.stretch import Stretch
from mulo_runtime.waves import Wave, plan_waves

__all__ = ["decode_mulo_sd"]

Grid = NDArray[np.int64]


def decode_mulo_sd(lane: Lane, job: Job, outcome: Outcome, settings: MuloSD) -> Iterator[Event]:
    """Decode round by round; a round covers `rows_per_round` rows of the drafter's grid."""
    drafting = Drafting(lane, job, settings)
    verifying = _Verifying(lane, job, outcome, settings)
    draft_rows, ratio = lane.draft_grid[0], lane.ratio
    step = settings.rows_per_round or draft_rows
    for start in range(0, draft_rows, step):
        stop = min(start + step, draft_rows)
        drafted = drafting.rows
        candidates = drafting.candidates(start, stop)
        if drafting.rows > drafted:
            yield Drafted(drafting.rows, drafting.grid.copy())
        lane.meter.phase = "verify"
        sampled, rejected = verifying.verify(start * ratio, candidates)
        plans = [_plan(rows, start * ratio, lane.queries, settings) for rows in rejected]
        outcome.drafted[:] = drafting.drawn
        _book(outcome, rejected, plans, start * ratio)
        accept_map = lane.as_grid(outcome.accept_map)
        yield Verified(stop * ratio, lane.as_grid(outcome.tokens), accept_map, outcome.accepted_share)
        lane.meter.phase = "resample"
        learnt = range(start, stop) if drafting.resynchronises and stop < draft_rows else None
        verified = verifying.resample(start * ratio, sampled, plans, learnt)
        if verified is not None:
            lane.meter.phase = "resynchronise"
            drafting.resynchronise(verified, start, stop)
        yield RowsDone(stop * ratio, lane.as_grid(outcome.tokens), outcome.accepted_share)


class _Verifying:
    """The target's side of the rounds; remembers from where its log has to be refreshed."""

    def __init__(self, lane: Lane, job: Job, outcome: Outcome, settings: MuloSD) -> None:
        self._lane, self._job, self._settings = lane, job, settings
        self._tokens, self._mass = outcome.tokens, outcome.mass
        self._rule = PooledMass(settings.tau, settings.pool_k, settings.include_self)
        self._stale_from = int(self._tokens.shape[1])

    def verify(self, first_row: int, candidates: Grid) -> tuple[Grid, NDArray[np.bool_]]:
        """Place `candidates` [N, rows, cols] in the image and ask the target about them.

        Returns:
            sampled: what the target draws at each place while all candidates before it stay; [N, rows * cols].
            rejected: which candidates it rejects; [N, rows, cols].
        """
        images, rows, cols = candidates.shape
        start, stop = first_row * cols, (first_row + rows) * cols
        self._tokens[:, start:stop] = candidates.reshape(images, -1)
        draws, stretch = Draws.blank(images, stop - start), self._stretch()
        rest = draws
        if start == 0:
            stretch.verify_first(self._job.condition("target"), draws.part(0, 1))
            rest = draws.part(1, stop)
        verify_span(stretch, range(self._rewound(start), stop - 1), max(start, 1), self._lane.queries, rest)
        stretch.finish()
        accepted = self._rule.accept(draws.probability, draws.mass)
        self._mass += draws.mass.sum(1)
        self._stale_from = start + self._redraw(self._tokens[:, start:stop], draws.tokens, accepted)
        return draws.tokens, ~accepted.reshape(candidates.shape)

    def resample(self, first_row: int, sampled: Grid, plans: list[list[Wave]], learnt: range | None) -> Grid | None:
        """Draw what `plans` say; their first waves are what the verification has drawn already.

        Returns:
            rows `learnt` of the drafter's grid as the image has them now, [N, rows, cols]; None where none are wanted.
        """
        start = first_row * self._lane.grid[1]
        for image, plan in enumerate(plans):
            for wave in plan[:1]:
                self._tokens[image, wave.targets] = sampled[image, wave.targets - start]
            if plan and self._settings.stale == "mask":
                self._lane.target.hide(image, np.concatenate([wave.targets for wave in plan]))
        self._stale_from = min([self._stale_from, *(int(plan[0].targets[0]) for plan in plans if plan)])
        stretch = self._stretch()
        run_waves(stretch, [plan[1:] for plan in plans])
        verified = None if learnt is None else self._downsampled(stretch, learnt)
        stretch.finish()
        return verified

    def _redraw(self, candidates: Grid, sampled: Grid, accepted: NDArray[np.bool_]) -> int:
        """Put `sampled` in the place of accepted `candidates` near it; returns the first place, or how many there are.

        All are [N, rows * cols]; `candidates` is updated.
        """
        places = int(candidates.shape[1])
        if not self._settings.redraw_k:
            return places
        near = np.zeros(candidates.shape, np.bool_)
        # One rank after the other: all at once would allocate `redraw_k` times as much as the image holds.
        for rank in range(self._settings.redraw_k):
            near |= self._lane.nearest[candidates, rank] == sampled
        redrawn = accepted & near
        np.copyto(candidates, sampled, where=redrawn)
        return min(np.flatnonzero(redrawn.any(0)).tolist(), default=places)

    def _downsampled(self, stretch: Stretch, rows: range) -> Grid:
        """Low-resolution `rows` of the image, which are made with `look_ahead` rows above them."""
        lane = self._lane
        above = max(rows.start - self._settings.look_ahead, 0)
        downsampled: Grid = stretch.map(lane.downsampler, above * lane.ratio, rows.stop * lane.ratio, lane.grid[1])
        return downsampled[:, rows.start - above :]

    def _stretch(self) -> Stretch:
        job = self._job
        return self._lane.stretch(self._lane.target, self._tokens, job.target_uniforms, job.guard)

    def _rewound(self, start: int) -> int:
        """The first token to feed: the last before the round, or the first that changed after its key was computed."""
        last = max(start - 1, 0)
        if self._settings.refresh != "block" or start == 0:
            return last
        first = min(self._stale_from, last)
        self._lane.target.rewind(first)
        return first


def _plan(rejected: NDArray[np.bool_], first_row: int, widest: int, settings: MuloSD) -> list[Wave]:
    """The waves that resample one image's round."""
    region = rejected
    if settings.rejection == "raster":
        region = rejected_from_first(rejected)
    elif settings.radius is not None:
        region = expand(rejected, settings.radius)
    order = raster_order(region) if settings.islands == "serial" else island_order(region, settings.window)
    refresh = settings.refresh == "dirty"
    return plan_waves(order, first_row, surrogate=settings.surrogate, refresh=refresh, widest=widest)


def _book(outcome: Outcome, rejected: NDArray[np.bool_], plans: list[list[Wave]], first_row: int) -> None:
    """Note what was accepted, rejected and resampled."""
    _, rows, cols = rejected.shape
    start = first_row * cols
    outcome.rounds += 1
    outcome.verified += rows * cols
    outcome.accepted += np.count_nonzero(~rejected, axis=(1, 2))
    outcome.accept_map[:, start : start + rows * cols] = Accept.ACCEPTED
    for image, plan in enumerate(plans):
        for wave in plan:
            outcome.accept_map[image, wave.targets] = Accept.NEIGHBOUR
            outcome.resampled[image] += len(wave.targets)
        outcome.accept_map[image, start + np.flatnonzero(rejected[image])] = Accept.REJECTED
