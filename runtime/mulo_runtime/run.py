"""One batch of images on a leased lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter

import numpy as np

from mulo_runtime.batch import Batch
from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.decoders import decode
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.events import Drafted, Event
from mulo_runtime.lane import Lane
from mulo_runtime.noise import Purpose, uniforms
from mulo_runtime.request import Result, Statistics
from mulo_runtime.settings import Method, MuloSD, Sampling

__all__ = ["Run"]


class Run:
    """Decodes a batch.

    Args:
        batch: what to decode.
        conditions: encodes what the images show.
        lane: a lane that nobody else uses.
        guard: called before every pass; raises to stop.
        queue_seconds: how long the batch waited for the lane.
        watched: whether somebody looks at the events.

    Attributes:
        seconds: wall clock so far, without the time of whoever consumes the events.
    """

    def __init__(
        self,
        batch: Batch,
        conditions: ConditionEncoder,
        lane: Lane,
        guard: Callable[[], None],
        queue_seconds: float = 0.0,
        *,
        watched: bool = True,
    ) -> None:
        self._batch, self._conditions, self._lane, self._guard = batch, conditions, lane, guard
        self._queue_seconds, self._watched = queue_seconds, watched
        self._slow_runs = lane.slow_runs
        self.seconds = 0.0
        self._abandoned_share: float | None = None

    def events(self) -> Iterator[Event]:
        """Decode; time spent by whoever consumes the events is not counted."""
        self._lane.meter.clear()
        self._lane.attach()
        start = perf_counter()
        for event in self._decode():
            self.seconds += perf_counter() - start
            yield event
            self._lane.attach()
            start = perf_counter()
        self._lane.meter.phase = "decode"
        self._image = self._lane.decoder.run(self._lane.as_grid(self._outcome.tokens))
        self.seconds += perf_counter() - start

    def results(self) -> list[Result]:
        """The finished images."""
        return [self._result(index) for index in range(len(self._batch.seeds))]

    def _decode(self) -> Iterator[Event]:
        """Decode by the requested method, and by the fallback's as soon as that is given up."""
        fallback = self._batch.fallback
        for event in self._decode_by(self._batch.method):
            share = None if isinstance(event, Drafted) else event.accepted_share
            if fallback is not None and share is not None and share < fallback.floor:
                self._abandoned_share = share
                yield from self._decode_by(fallback.method)
                return
            yield event

    def _decode_by(self, method: Method) -> Iterator[Event]:
        rows, cols = self._lane.grid
        self._method, self._outcome = method, Outcome.blank(len(self._batch.seeds), rows * cols)
        self._lane.prepare(self._batch.sampling, method)
        return decode(self._lane, self._job(method), self._outcome, method)

    def _job(self, method: Method) -> Job:
        seeds = self._batch.seeds
        embeds, visible = self._conditions.encode(self._batch.conditions, _guided(method, self._batch.sampling))
        (rows, cols), (draft_rows, draft_cols) = self._lane.grid, self._lane.draft_grid
        return Job(
            embeds=embeds,
            visible=visible,
            target_uniforms=np.stack([uniforms(seed, Purpose.TARGET, rows * cols) for seed in seeds]),
            drafter_uniforms=np.stack([uniforms(seed, Purpose.DRAFT, draft_rows * draft_cols) for seed in seeds]),
            seeds=seeds,
            guard=self._guard,
            watched=self._watched,
        )

    def _result(self, index: int) -> Result:
        return Result(
            image=self._image[index].copy(),
            tokens=self._lane.as_grid(self._outcome.tokens)[index].copy(),
            accept_map=self._lane.as_grid(self._outcome.accept_map)[index].copy(),
            seed=self._batch.seeds[index],
            method=self._method,
            sampling=self._batch.sampling,
            statistics=self._statistics(index),
        )

    def _statistics(self, index: int) -> Statistics:
        outcome, meter = self._outcome, self._lane.meter
        verified, accepted = int(outcome.verified[index]), int(outcome.accepted[index])
        return Statistics(
            rounds=outcome.rounds,
            drafted=int(outcome.drafted[index]),
            verified=verified,
            accepted=accepted,
            rejected=verified - accepted,
            resampled=int(outcome.resampled[index]),
            engines=meter.by_engine(),
            phases=meter.by_phase(),
            slow_runs=self._lane.slow_runs - self._slow_runs,
            seconds=self.seconds,
            pooled_mass=float(outcome.mass[index]) / verified if verified else None,
            abandoned_share=self._abandoned_share,
            queue_seconds=self._queue_seconds,
        )


def _guided(method: Method, sampling: Sampling) -> Mapping[str, bool]:
    """The models that the method runs, and whether with a null half."""
    if not isinstance(method, MuloSD):
        return {"target": sampling.guided}
    return {model: sampling.guided and method.guided in ("both", model) for model in ("target", "drafter")}
