"""Counts and times what the engines of a lane do for one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter

from mulo_engines.engine import Call
from mulo_engines.stream import Mark

__all__ = ["Meter", "Pass", "Usage"]


@dataclass(slots=True)
class Usage:
    """What one engine did in one phase.

    Attributes:
        passes: how often it ran.
        queries: tokens or pictures that were fed, padding not counted, summed over passes.
        seconds: time inside the engine; on a device, the time that it took to enqueue the work.
        read_backs: how often the host waited for results of a device.
        throttles: how often the host waited because it was too far ahead of a device.
    """

    passes: int = 0
    queries: int = 0
    seconds: float = 0.0
    read_backs: int = 0
    throttles: int = 0

    def add(self, other: Usage) -> None:
        """Add what `other` counts."""
        self.passes += other.passes
        self.queries += other.queries
        self.seconds += other.seconds
        self.read_backs += other.read_backs
        self.throttles += other.throttles


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of an engine.

    Attributes:
        phase: what the decoder was doing.
        engine: the engine's name.
        queries: tokens or pictures that were fed, padding not counted.
        start: when it started, in seconds of `time.perf_counter`.
        seconds: how long it took.
    """

    phase: str
    engine: str
    queries: int
    start: float
    seconds: float


class Meter:
    """Usage by phase and engine; cleared at the start of a request.

    Attributes:
        phase: what the decoder is doing; runs are booked under it.
        on_pass: told of every run; must be quick.
    """

    __slots__ = ("_usage", "on_pass", "phase")

    def __init__(self) -> None:
        self.phase = ""
        self.on_pass: Callable[[Pass], None] | None = None
        self._usage: dict[tuple[str, str], Usage] = {}

    def clear(self) -> None:
        """Forget what was counted."""
        self._usage = {}

    def run(self, engine: str, call: Call, queries: int) -> None:
        """Run `call` and book it under `engine` and the current phase."""
        usage = self._usage_of(engine)
        start = perf_counter()
        call.run()
        seconds = perf_counter() - start
        usage.seconds += seconds
        usage.passes += 1
        usage.queries += queries
        if self.on_pass is not None:
            self.on_pass(Pass(self.phase, engine, queries, start, seconds))

    def read_back(self, mark: Mark) -> None:
        """Wait for results of a device, and book it under "device" and the current phase."""
        self._wait(mark).read_backs += 1

    def throttle(self, mark: Mark) -> None:
        """Wait for a device that the host is too far ahead of, and book it likewise."""
        self._wait(mark).throttles += 1

    def by_engine(self) -> Mapping[str, Usage]:
        """Usage by engine, all phases together."""
        return _summed((engine, usage) for (_, engine), usage in self._usage.items())

    def by_phase(self) -> Mapping[str, Usage]:
        """Usage by phase, all engines together."""
        return _summed((phase, usage) for (phase, _), usage in self._usage.items())

    def _wait(self, mark: Mark) -> Usage:
        usage = self._usage_of("device")
        start = perf_counter()
        mark.wait()
        usage.seconds += perf_counter() - start
        return usage

    def _usage_of(self, engine: str) -> Usage:
        key = (self.phase, engine)
        usage = self._usage.get(key)
        if usage is None:
            usage = self._usage[key] = Usage()
        return usage


def _summed(items: Iterator[tuple[str, Usage]]) -> Mapping[str, Usage]:
    sums: dict[str, Usage] = {}
    for name, usage in items:
        sums.setdefault(name, Usage()).add(usage)
    return sums
