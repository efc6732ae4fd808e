"""Times whole images: the first one after opening, and warm ones, phase by phase and pass by pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from mulo_runtime import Condition, Method, Pass, Pipeline, Request, Result

from mulo_tools.profile.latency import Latency

__all__ = ["HOST", "LoopTimes", "TimedImage", "time_loop"]

HOST = "host"
"""What the phases call the time outside the engines."""


@dataclass(frozen=True, slots=True)
class TimedImage:
    """One image.

    Attributes:
        start: when it was asked for, in seconds of `time.perf_counter`.
        seconds: until it was there.
        passes: every run of an engine, in order.
        result: the image.
    """

    start: float
    seconds: float
    passes: Sequence[Pass]
    result: Result

    def by_phase(self) -> dict[str, float]:
        """Seconds of every phase's engines, and of the host; they add up to the whole."""
        phases: dict[str, float] = {}
        for each in self.passes:
            phases[each.phase] = phases.get(each.phase, 0.0) + each.seconds
        return {**phases, HOST: self.seconds - sum(phases.values())}


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """What images of one method took.

    Attributes:
        method: how they were decoded.
        opening: seconds from the bundle on disk to a pipeline that takes requests.
        cold: the first image.
        warm: all later ones, after the method's passes were walked.
    """

    method: Method
    opening: float
    cold: TimedImage
    warm: Sequence[TimedImage]

    @property
    def latency(self) -> Latency:
        """Seconds of whole images."""
        return Latency(self.cold.seconds, [image.seconds for image in self.warm])

    @property
    def typical(self) -> TimedImage:
        """The warm image that took the median time."""
        return sorted(self.warm, key=lambda image: image.seconds)[len(self.warm) // 2]

    def by_phase(self) -> dict[str, Latency]:
        """Seconds of every phase that any image has."""
        images = [image.by_phase() for image in (self.cold, *self.warm)]
        names = dict.fromkeys(name for image in images for name in image if name != HOST)
        cold, *warm = images
        return {name: Latency(cold.get(name, 0.0), [image.get(name, 0.0) for image in warm]) for name in (*names, HOST)}


def time_loop(
    bundle: Path, method: Method, condition: Condition, *, backend: str, threads: int, images: int, seed: int
) -> LoopTimes:
    """Open a pipeline and have it make one image cold and `images` warm, of the seeds from `seed` on.

    Raises:
        MuloError: an image cannot be made.
    """
    start = perf_counter()
    with Pipeline.open(bundle, backend=backend, threads=threads, verify=False, methods=[method]) as pipeline:
        opening = perf_counter() - start
        cold = _timed(pipeline, Request(condition, seed, method))
        pipeline.warm_up(method)
        warm = [_timed(pipeline, Request(condition, seed + index, method)) for index in range(images)]
    return LoopTimes(method, opening, cold, warm)


def _timed(pipeline: Pipeline, request: Request) -> TimedImage:
    passes = list[Pass]()
    start = perf_counter()
    (result,) = pipeline.generate_batch([request], on_pass=passes.append)
    return TimedImage(start, perf_counter() - start, passes, result)
