"""Times images one by one, all methods in turn, so that a machine whose speed drifts is fair to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time

from mulo_runtime import Method, Pipeline, Statistics

from mulo_tools.bench.cases import Case

__all__ = ["Timed", "time_methods"]


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed image.

    Attributes:
        method: how it was decoded.
        seed: the case's seed.
        seconds: wall clock from request to result.
        cpu_seconds: time of this process on the processor, all threads together.
        statistics: what the engines did.
    """

    method: Method
    seed: int
    seconds: float
    cpu_seconds: float
    statistics: Statistics


def time_methods(pipeline: Pipeline, methods: Sequence[Method], cases: Sequence[Case]) -> Iterator[Timed]:
    """Every case by every method in turn: A B C, A B C; the pipeline should be warm."""
    for case in cases:
        for method in methods:
            request = case.request(method)
            start, busy = perf_counter(), process_time()
            result = pipeline.generate(request)
            yield Timed(method, case.seed, perf_counter() - start, process_time() - busy, result.statistics)
