"""The public face of the runtime: a bundle opened once, asked for images many times, from any thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from threading import Event as Signal
from time import monotonic
from typing import Self

from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.stream import Stream

from mulo_runtime.async_stream import StreamThreads
from mulo_runtime.batch import Batch, make_batch
from mulo_runtime.canary import check_canary, read_canary
from mulo_runtime.conditions import Condition, ConditionEncoder, Prompt
from mulo_runtime.defaults import default_method, default_sampling
from mulo_runtime.engine_loading import admitted_queries, close_engines, load_engines
from mulo_runtime.events import Event
from mulo_runtime.guard import make_guard
from mulo_runtime.health import Health, examine
from mulo_runtime.lane import Lane
from mulo_runtime.lane_pool import LanePool, Load, Ticket
from mulo_runtime.meter import Pass
from mulo_runtime.neighbours import read_neighbours
from mulo_runtime.previews import PreviewBudget, preview
from mulo_runtime.readiness import Readiness, State
from mulo_runtime.request import Done, Request, Result, StreamEvent
from mulo_runtime.run import Run
from mulo_runtime.settings import AutoRegressive, Method, ZipAR
from mulo_runtime.warm_up import warm_lanes

__all__ = ["Pipeline"]


class Pipeline:
    """Makes images from a bundle; thread-safe. Made by `Pipeline.open`, or from engines by tests.

    Lanes share the engines and so the weights; each has buffers of its own. A request that finds every lane taken waits
    in a queue, longest for as long as ceil((queue + 1) / lanes) images of its priority or above take.

    Args:
        bundle: sizes, defaults and the prompt encoder.
        engines: every graph that decoding needs, by name; closed with the pipeline.
        lanes: how many requests are served at once.
        queue: how many more may wait.
        images: how many images one lane decodes together in `generate_batch`.
        queries: the largest number of queries of one pass.
        methods: the methods that the buffers must hold; None takes plain decoding, ZipAR and the bundle's MuLo-SD.
        new_stream: makes the stream of a lane, where the engines run on a device.
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
        new_stream: Callable[[], Stream] | None = None,
    ) -> None:
        self.bundle = bundle
        self.sampling, self.method = default_sampling(bundle.manifest), default_method(bundle.manifest)
        self._engines = engines
        self._conditions = ConditionEncoder(bundle, engines)
        self._images = images
        self._held = held = tuple(dict.fromkeys(_held(bundle, methods)))
        streams = [new_stream() if new_stream else None for _ in range(lanes)]
        sizes = bundle.manifest, images, queries, held
        neighbours = read_neighbours(bundle, held)
        self._lanes = [Lane(engines, *sizes, stream, neighbours) for stream in streams]
        self._pool = LanePool(self._lanes, queue)
        self._threads = StreamThreads(lanes + queue)
        self._readiness = Readiness()

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        backend: str = "onnxruntime",
        device: int = 0,
        compiled: Path | None = None,
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
            device: number of the GPU.
            compiled: where compiled engines lie; None looks inside the bundle.
            threads: threads of one engine call; 0 takes every core.
            spinning: whether idle threads wait actively; turn it off where cores are shared.
            verify: whether every file's SHA-256 is compared with the manifest, not only its size.
            lanes: how many requests are served at once.
            queue: how many more may wait.
            images: how many images one lane decodes together.
            queries: the largest number of queries of one pass; fewer where the engines were compiled for fewer.
            methods: the methods that the buffers must hold; see the class.

        Raises:
            RequestError: the engines were compiled for fewer images, or for shorter caches.
            BundleError: the bundle is refused.
            OutOfMemory: weights and buffers do not fit the memory that is there; the sum is shown.
            EngineError: an engine cannot be loaded.
        """
        bundle = Bundle.open(Path(path), verify="full" if verify else "size")
        held = _held(bundle, methods)
        runs = open_backend(backend, threads=threads, spinning=spinning, device=device, engines=compiled)
        queries = admitted_queries(runs, bundle, images, queries)
        engines = load_engines(runs, bundle, held, lanes=lanes, images=images, queries=queries)
        sizes = {"lanes": lanes, "queue": queue, "images": images, "queries": queries}
        try:
            return cls(bundle, engines, methods=held, new_stream=runs.new_stream if runs.on_device else None, **sizes)
        except BaseException:
            close_engines(engines)
            raise

    @property
    def words(self) -> Sequence[str]:
        """The words that prompts may use; empty where the bundle brings no prompt encoder."""
        return self._conditions.words

    @property
    def examples(self) -> Sequence[Condition]:
        """Conditions to begin with: the prompts that the bundle names, or one that any request might have."""
        prompt = self.bundle.manifest.prompt
        texts = prompt.examples if prompt else ()
        return [Prompt(text) for text in texts] if texts else [self._conditions.example()]

    @property
    def state(self) -> State:
        """What the pipeline is there for now."""
        return self._readiness.state

    def generate(
        self, request: Request, *, cancel: Signal | None = None, on_event: Callable[[Event], None] | None = None
    ) -> Result:
        """Make one image.

        Args:
            request: what is wanted.
            cancel: set by another thread to stop the request at its next pass.
            on_event: told of rows drafted, verified and finished, on this thread; must be quick.

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
        on_pass: Callable[[Pass], None] | None = None,
    ) -> list[Result]:
        """Decode several images together in one lane, with the deadline and priority of the first.

        Fewer requests than the lane's images are filled up with copies of the last, whose results are dropped.

        Args:
            requests: what is wanted.
            cancel: see `generate`.
            on_event: see `generate`.
            on_pass: told of every run of an engine, on this thread; must be quick.

        Raises:
            RequestError: no request, more than the lane holds, or requests that differ in more than condition and seed.
            Busy, Cancelled, DeadlineExceeded, PipelineClosed, EngineError: see `generate`.
        """
        batch, until = self._batch(requests), _until(requests[0])
        ticket, watched = self._pool.enter(requests[0].priority), on_event is not None
        with self._running(batch, ticket, until, cancel, watched=watched, on_pass=on_pass) as (_, run):
            for event in run.events():
                if on_event is not None:
                    on_event(event)
            return run.results()[: len(requests)]

    def stream(
        self, request: Request, *, cancel: Signal | None = None, previews: int | None = None
    ) -> Generator[StreamEvent]:
        """Make one image and show it while it grows.

        The lane waits for whoever consumes the iterator, and is free once that is exhausted or closed.

        Args:
            request: what is wanted.
            cancel: set by another thread to stop the request at its next pass.
            previews: how many looks at the unfinished image there are at most; None takes all that there are.

        Raises:
            See `generate`.
        """
        batch, until = self._batch([request]), _until(request)
        yield from self._stream(batch, self._pool.enter(request.priority), until, cancel, previews)

    async def generate_async(self, request: Request) -> Result:
        """`generate` for an event loop; a task that is cancelled stops the request at its next pass."""
        async with aclosing(self.stream_async(request, previews=0)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.result
        raise AssertionError("a stream ends with Done")

    async def stream_async(self, request: Request, *, previews: int | None = None) -> AsyncGenerator[StreamEvent]:
        """`stream` for an event loop; closing it stops the request at its next pass.

        The lane waits for nobody: of the previews that a slow consumer leaves lying, the oldest are dropped.
        """
        batch, until, cancel = self._batch([request]), _until(request), Signal()
        ticket = self._pool.enter(request.priority)
        events = self._stream(batch, ticket, until, cancel, previews)
        async with aclosing(self._threads.read(events, cancel)) as arriving:
            async for event in arriving:
                yield event

    def warm_up(self, *methods: Method) -> None:
        """Have every lane walk every branch, so that no later request meets a first time; then the pipeline is ready.

        Args:
            methods: the methods to walk; none walks those that the pipeline was opened for.

        Raises:
            EngineError: an engine failed; the pipeline counts as failed until it is warmed up again.
            ParityError: the bundle's MuLo-SD, if the pipeline was opened for it, does not accept images of fixed seeds
                as the bundle's baseline has it; likewise.
            Busy, PipelineClosed: as they say.
        """
        with self._readiness.warming():
            warm_lanes(self._pool, self._conditions, methods or self._held, self.sampling)
            baseline = self.bundle.manifest.canary
            if baseline is not None and self.method in self._held:
                check_canary(read_canary(self.generate, self.examples), baseline)

    def health(self, *, silence: float = 60.0) -> Health:
        """Whether lanes work: a spare one takes a step; where all are at work, each must have had a pass lately.

        Args:
            silence: seconds without a pass after which a lane that is at work counts as stuck.
        """
        return examine(self.state, self._pool, self._conditions, self.sampling, silence)

    def load(self) -> Load:
        """How busy lanes and queue are."""
        return self._pool.load()

    def drain(self, seconds: float | None = None) -> bool:
        """Refuse new requests, and let those that were accepted finish.

        Returns:
            Whether they did within `seconds`; None waits for ever.
        """
        self._readiness.close()
        return self._pool.drain(seconds)

    def close(self) -> None:
        """Refuse new and waiting requests, wait for running ones, then free everything; again does nothing."""
        self._readiness.close()
        self._pool.close()
        self._threads.close()
        close_engines(self._engines)
        for lane in self._lanes:
            lane.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _batch(self, requests: Sequence[Request]) -> Batch:
        return make_batch(requests, self._images, self.method, self.sampling)

    @contextmanager
    def _running(
        self,
        batch: Batch,
        ticket: Ticket,
        until: float | None,
        cancel: Signal | None,
        *,
        watched: bool = True,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> Iterator[tuple[Lane, Run]]:
        with self._pool.lease(ticket, until, cancel) as lane:
            lane.meter.on_pass = on_pass
            waited = monotonic() - ticket.entered
            yield lane, Run(batch, self._conditions, lane, make_guard(lane, until, cancel), waited, watched=watched)

    def _stream(
        self, batch: Batch, ticket: Ticket, until: float | None, cancel: Signal | None, previews: int | None
    ) -> Generator[StreamEvent]:
        with self._running(batch, ticket, until, cancel, watched=previews != 0) as (lane, run):
            budget = PreviewBudget(lane.grid[0], previews)
            for event in run.events():
                if budget.takes(event):
                    yield preview(lane, event, run.seconds)
            result = run.results()[0]
        yield Done(result)


def _held(bundle: Bundle, methods: Sequence[Method] | None) -> tuple[Method, ...]:
    """The methods that lanes are sized for."""
    return (AutoRegressive(), ZipAR(), *(methods if methods is not None else [default_method(bundle.manifest)]))


def _until(request: Request) -> float | None:
    return None if request.deadline is None else monotonic() + request.deadline
