"""One image as a trace that Perfetto and chrome://tracing open: Chrome's trace event format, its JSON object form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mulo_runtime import Pass

from mulo_tools.output import replacing
from mulo_tools.profile.loop import TimedImage

__all__ = ["trace_events", "write_trace"]

_PROCESS = 1
_PHASES = 0
"""The track of the phases; engines have the tracks behind it."""
_MICROSECONDS = 1e6


def trace_events(image: TimedImage, title: str) -> list[dict[str, Any]]:
    """The events of `image`: a track of its phases, and a track of passes for every engine, in microseconds."""
    engines = list(dict.fromkeys(each.engine for each in image.passes))
    tracks = {engine: number for number, engine in enumerate(engines, _PHASES + 1)}
    names = [_metadata("process_name", _PHASES, title), _metadata("thread_name", _PHASES, "phase")]
    names += [_metadata("thread_name", track, engine) for engine, track in tracks.items()]
    phases = [
        _complete(first.phase, "phase", _PHASES, image, first.start, last.start + last.seconds, {})
        for first, last in _stretches(image)
    ]
    passes = [
        _complete(
            f"{each.phase}: {each.queries}",
            "pass",
            tracks[each.engine],
            image,
            each.start,
            each.start + each.seconds,
            {"queries": each.queries, "phase": each.phase},
        )
        for each in image.passes
    ]
    return [*names, *phases, *passes]


def write_trace(path: Path, image: TimedImage, title: str) -> None:
    """Write the trace of `image`; the file appears whole or not at all."""
    content = {"traceEvents": trace_events(image, title), "displayTimeUnit": "ms"}
    with replacing(path) as partial:
        partial.write_text(json.dumps(content), encoding="utf-8")


def _stretches(image: TimedImage) -> Iterator[tuple[Pass, Pass]]:
    """The first and the last pass of every stretch of one phase."""
    first = last = image.passes[0]
    for each in image.passes[1:]:
        if each.phase != first.phase:
            yield first, last
            first = each
        last = each
    yield first, last


def _metadata(name: str, track: int, value: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": _PROCESS, "tid": track, "args": {"name": value}}


def _complete(
    name: str, category: str, track: int, image: TimedImage, start: float, end: float, arguments: dict[str, Any]
) -> dict[str, Any]:
    begin = (start - image.start) * _MICROSECONDS
    length = (end - start) * _MICROSECONDS
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": _PROCESS,
        "tid": track,
        "ts": begin,
        "dur": length,
        "args": arguments,
    }
