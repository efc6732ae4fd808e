"""OpenTelemetry's spans of images, where its interface is installed; FastAPI makes those of requests."""

from __future__ import annotations

import time

from mulo_runtime.request import Result
from mulo_runtime.settings import method_name

try:
    from opentelemetry import trace
except ModuleNotFoundError:  # the extra "tracing" is not installed
    _INSTALLED = False
else:
    _INSTALLED = True

__all__ = ["trace_image"]


def trace_image(result: Result) -> None:
    """Leave a span of a finished image below the current one, with a span for its wait and one for every phase.

    A phase comes back in every round; its span is as long as all of them together, and the spans lie end to end.
    """
    if not _INSTALLED:
        return
    tracer, statistics = trace.get_tracer("mulo"), result.statistics
    end = time.time_ns()
    begin = end - _nanoseconds(statistics.seconds + statistics.queue_seconds)
    attributes = {"mulo.method": method_name(result.method), "mulo.seed": str(result.seed)}
    if statistics.accepted_share is not None:
        attributes["mulo.accepted_share"] = str(statistics.accepted_share)
    image = tracer.start_span("image", start_time=begin, attributes=attributes)
    parts = {"queue": statistics.queue_seconds, **{name: usage.seconds for name, usage in statistics.phases.items()}}
    with trace.use_span(image, end_on_exit=False):
        for name, seconds in parts.items():
            part = tracer.start_span(name, start_time=begin)
            begin += _nanoseconds(seconds)
            part.end(end_time=begin)
    image.end(end_time=end)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
