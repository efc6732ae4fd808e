"""OpenTelemetry's spans, where its interface is installed; otherwise nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from mulo_runtime.request import Result
from mulo_runtime.service.asgi import Scope
from mulo_runtime.settings import method_name

try:
    from opentelemetry import propagate, trace
except ModuleNotFoundError:  # the extra is not installed
    _INSTALLED = False
else:
    _INSTALLED = True

__all__ = ["Span", "request_span", "trace_image"]

_SCOPE = "mulo"


class Span(Protocol):
    """What is used of a span."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Note `value` under `key`."""


class _NoSpan:
    def set_attribute(self, key: str, value: Any) -> None:
        """Do nothing."""


@contextmanager
def request_span(scope: Scope) -> Iterator[Span]:
    """The span of an HTTP request, below the one that its headers name."""
    if not _INSTALLED:
        yield _NoSpan()
        return
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    with trace.get_tracer(_SCOPE).start_as_current_span(
        f"{scope['method']} {scope['path']}",
        context=propagate.extract(headers),
        kind=trace.SpanKind.SERVER,
        attributes={"http.request.method": scope["method"], "url.path": scope["path"]},
    ) as span:
        yield span


def trace_image(result: Result) -> None:
    """Leave a span of a finished image below the current one, with a span for its wait and one for every phase.

    A phase comes back in every round; its span is as long as all of them together, and the spans lie end to end.
    """
    if not _INSTALLED:
        return
    tracer, statistics = trace.get_tracer(_SCOPE), result.statistics
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
