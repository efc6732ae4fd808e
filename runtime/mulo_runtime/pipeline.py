"""The public face of the runtime: a bundle opened once, asked for images many times, from any thread."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event as Signal
from time import monotonic, perf_counter
from typing import Self

import numpy as np
from mulo_engines.backend import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import Cancelled, DeadlineExceeded, RequestError
from mulo_engines.memory import available_memory

from mulo_runtime.capacity import lane_memory
from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.decoders import decode
from mulo_runtime.decoders.job import Job, Outcome
from mulo_runtime.defaults import default_method, default_sampling
from mulo_runtime.events import Drafted, Event
from mulo_runtime.graphs import GRAPHS, graphs_for
from mulo_runtime.lane import Lane
from mulo_runtime.lane_pool import LanePool
from mulo_runtime.neighbours import read_neighbours
from mulo_runtime.noise import Purpose, uniforms
from mulo_runtime.request import Done, DraftPreview, Request, Result, RowsPreview, Statistics, StreamEvent
from mulo_runtime.settings import AutoRegressive, Method, MuloSD, Sampling, ZipAR

__all__ = ["GRAPHS", "Pipeline"]


class Pipeline:
    """Makes images from a bundle; thread-safe. Made by `Pipeline.open`, or from engines by tests.

    Args:
        bundle: sizes, defaults and the prompt encoder.
        engines: every graph that decoding needs, by name; closed with the pipeline.
        lanes: how many requests are served at once.
        queue: how many more may wait.
        images: how many images one lane decodes together in `generate_batch`.
        queries: the largest number of queries of one pass.
        methods: the methods that the buffers must hold; None takes plain decoding, ZipAR and the bundle's MuLo-SD.
    """

    def __init__(
        self,
        bundle: Bundle,
        engines: dict[str, Engine],
        *,
        lanes: int = 1,
        queue: int = 16,
        images: int = 1,
        queries: int = 256,
        methods: Sequence[Method] | None = None,
    ) -> None:
        self.bundle = bundle
        self.sampling, self.method = default_sampling(bundle.manifest), default_method(bundle.manifest)
        self._engines = engines
        self._conditions = ConditionEncoder(bundle, engines)
        self._images = images
        held = _held(bundle, methods)
        sizes = bundle.manifest, images, queries, held, read_neighbours(bundle, held)
        self._pool = LanePool([Lane(engines, *sizes) for _ in range(lanes)], queue)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        backend: str = "onnxruntime",
        threads: int = 0,
        spinning: bool = True,
        verify: bool = True,
        lanes: int = 1,
        queue: int = 16,
        images: int = 1,
        queries: int = 256,
        methods: Sequence[Method] | None = None,
    ) -> Self:
        """Open the bundle at `path` and load its graphs.

        Args:
            path: the bundle's folder.
            backend: what runs the graphs.
            threads: threads of one engine call; 0 takes every core.
            spinning: whether idle threads wait actively; turn it off where cores are shared.
            verify: whether every file's SHA-256 is compared with the manifest, not only its size.
            lanes: how many requests are served at once.
            queue: how many more may wait.
            images: how many images one lane decodes together.
            queries: the largest number of queries of one pass.
            methods: the methods that the buffers must hold; see the class.

        Raises:
            BundleError: the bundle is refused.
            OutOfMemory: weights and buffers do not fit the memory that is there; the sum is shown.
            EngineError: an engine cannot be loaded.
        """
        bundle = Bundle.open(Path(path), verify="full" if verify else "size")
        held = _held(bundle, methods)
        lane_memory(bundle.manifest, held, lanes=lanes, images=images, queries=queries).require(available_memory())
        loader = open_backend(backend, threads=threads, spinning=spinning)
        engines: dict[str, Engine] = {}
        try:
            for name in graphs_for(bundle.manifest, held):
                engines[name] = loader.load(bundle, name)
            return cls(bundle, engines, lanes=lanes, queue=queue, images=images, queries=queries, methods=held)
        except BaseException:
            for engine in engines.values():
                engine.close()
            raise

    @property
    def words(self) -> Sequence[str]:
        """The words that prompts may use; empty where the bundle brings no prompt encoder."""
        return self._conditions.words

    def generate(
        self, request: Request, *, cancel: Signal | None = None, on_event: Callable[[Event], None] | None = None
    ) -> Result:
        """Make one image.

        Args:
            request: what is wanted.
            cancel: set by another thread to stop the request at its next pass.
            on_event: told of rows drafted and rows finished, on this thread; must be quick.

        Raises:
            RequestError: the request cannot be served.
            Busy, Cancelled, DeadlineExceeded, PipelineClosed: as they say.
            EngineError: an engine failed; the pipeline stays usable.
        """
        return self.generate_batch([request], cancel=cancel, on_event=on_event)[0]

    def generate_batch(
        self,
        requests: Sequence[Request],
        *,
        cancel: Signal | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> list[Result]:
        """Decode several images together in one lane; their method, sampling and deadline are the first one's.

        Fewer requests than the lane's images are filled up with copies of the last, whose results are dropped.

        Raises:
            RequestError: no request, more than the lane holds, or methods or samplings that differ.
            Busy, Cancelled, DeadlineExceeded, PipelineClosed, EngineError: see `generate`.
        """
        filled = self._filled(requests)
        until = _until(requests[0])
        with self._pool.lease(until) as lane:
            run = _Run(self, lane, filled, _guard(until, cancel))
            for event in run.events():
                if on_event is not None:
                    on_event(event)
            return run.results()[: len(requests)]

    def stream(self, request: Request, *, cancel: Signal | None = None) -> Iterator[StreamEvent]:
        """Make one image and show it while it grows; the lane is free once the iterator is exhausted or closed.

        Raises:
            See `generate`.
        """
        until = _until(request)
        with self._pool.lease(until) as lane:
            run = _Run(self, lane, self._filled([request]), _guard(until, cancel))
            for event in run.events():
                yield run.preview(event)
            result = run.results()[0]
        yield Done(result)

    def warm_up(self, *methods: Method) -> None:
        """Decode synthetic images so that no later request meets a first time: accepting all, rejecting all.

        Args:
            methods: the methods to walk; none walks plain decoding and the bundle's MuLo-SD.
        """
        walked: list[Method] = list(methods or (AutoRegressive(), self.method))
        walked += [method.with_changes(tau=tau) for method in walked if isinstance(method, MuloSD) for tau in (0, 2)]
        for method in walked:
            self.generate(Request(self._conditions.example(), seed=0, method=method))

    def close(self) -> None:
        """Wait for running requests, then free everything; closing again does nothing."""
        self._pool.close()
        for engine in self._engines.values():
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _filled(self, requests: Sequence[Request]) -> list[Request]:
        if not 0 < len(requests) <= self._images:
            raise RequestError(
                "the batch does not fit a lane", found=f"{len(requests)} requests", expected=f"1 to {self._images}"
            )
        if len({(request.method, request.sampling) for request in requests}) > 1:
            raise RequestError("requests of one batch differ in method or sampling", fix="batch like with like")
        return [*requests, *[requests[-1]] * (self._images - len(requests))]


class _Run:
    """One batch of requests on a leased lane."""

    def __init__(self, pipeline: Pipeline, lane: Lane, requests: Sequence[Request], guard: Callable[[], None]) -> None:
        self._pipeline, self._lane, self._guard = pipeline, lane, guard
        self._conditions = [request.condition for request in requests]
        self._seeds = [secrets.randbits(63) if request.seed is None else request.seed for request in requests]
        self._method: Method = requests[0].method or pipeline.method
        self._sampling = requests[0].sampling or pipeline.sampling
        rows, cols = lane.grid
        self._outcome = Outcome.blank(len(requests), rows * cols)
        self._seconds = 0.0

    def events(self) -> Iterator[Event]:
        """Decode; time spent by whoever consumes the events is not counted."""
        start = perf_counter()
        self._lane.prepare(self._sampling, self._method)
        for event in decode(self._lane, self._job(), self._outcome, self._method):
            self._seconds += perf_counter() - start
            yield event
            start = perf_counter()
        self._lane.meter.phase = "decode"
        self._image = self._lane.decoder.run(self._lane.as_grid(self._outcome.tokens))
        self._seconds += perf_counter() - start

    def preview(self, event: Event) -> StreamEvent:
        """`event` with its tokens decoded to pixels."""
        image = self._lane.previewer.run(event.tokens)[0].copy()
        if isinstance(event, Drafted):
            return DraftPreview(event.rows, image)
        return RowsPreview(event.rows, self._lane.grid[0], image, event.accepted_share)

    def results(self) -> list[Result]:
        """The finished images."""
        return [self._result(index) for index in range(len(self._seeds))]

    def _job(self) -> Job:
        embeds, visible = self._pipeline._conditions.encode(self._conditions, _guided(self._method, self._sampling))
        (rows, cols), (draft_rows, draft_cols) = self._lane.grid, self._lane.draft_grid
        return Job(
            embeds=embeds,
            visible=visible,
            target_uniforms=np.stack([uniforms(seed, Purpose.TARGET, rows * cols) for seed in self._seeds]),
            drafter_uniforms=np.stack([uniforms(seed, Purpose.DRAFT, draft_rows * draft_cols) for seed in self._seeds]),
            seeds=self._seeds,
            guard=self._guard,
        )

    def _result(self, index: int) -> Result:
        outcome, meter = self._outcome, self._lane.meter
        verified, accepted = int(outcome.verified[index]), int(outcome.accepted[index])
        return Result(
            image=self._image[index].copy(),
            tokens=self._lane.as_grid(outcome.tokens)[index].copy(),
            accept_map=self._lane.as_grid(outcome.accept_map)[index].copy(),
            seed=self._seeds[index],
            method=self._method,
            sampling=self._sampling,
            statistics=Statistics(
                rounds=outcome.rounds,
                drafted=int(outcome.drafted[index]),
                verified=verified,
                accepted=accepted,
                rejected=verified - accepted,
                resampled=int(outcome.resampled[index]),
                engines=meter.by_engine(),
                phases=meter.by_phase(),
                seconds=self._seconds,
            ),
        )


def _held(bundle: Bundle, methods: Sequence[Method] | None) -> tuple[Method, ...]:
    """The methods that lanes are sized for."""
    return (AutoRegressive(), ZipAR(), *(methods if methods is not None else [default_method(bundle.manifest)]))


def _guided(method: Method, sampling: Sampling) -> dict[str, bool]:
    """The models that the method runs, and whether with a null half."""
    if not isinstance(method, MuloSD):
        return {"target": sampling.guided}
    return {model: sampling.guided and method.guided in ("both", model) for model in ("target", "drafter")}


def _until(request: Request) -> float | None:
    return None if request.deadline is None else monotonic() + request.deadline


def _guard(until: float | None, cancel: Signal | None) -> Callable[[], None]:
    """What a decoder calls before every pass."""

    def guard() -> None:
        if cancel is not None and cancel.is_set():
            raise Cancelled("the request was cancelled")
        if until is not None and monotonic() > until:
            raise DeadlineExceeded("the deadline passed before the image was done")

    return guard
