"""The trace is what Chrome's trace event format says, so that Perfetto opens it.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mulo_tools.profile.loop import TimedImage
from mulo_tools.profile.trace import write_trace

MakeImage = Callable[..., TimedImage]
REQUIRED = {"M": {"name", "pid", "args"}, "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"}}
METADATA = {"process_name", "thread_name"}


def checked(path: Path) -> list[dict[str, Any]]:
    """The events of a trace file, each of which has what the format asks of its kind."""
    content = json.loads(path.read_text())
    assert content["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = content["traceEvents"]
    for event in events:
        assert event.keys() >= REQUIRED[event["ph"]]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in METADATA
            assert isinstance(event["args"]["name"], str)
        else:
            assert event["ts"] >= 0
            assert event["dur"] >= 0
    return events


def nested(events: list[dict[str, Any]]) -> bool:
    """Whether complete events of one track contain each other or follow each other, which the format demands."""
    ends = list[float]()
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while ends and ends[-1] <= event["ts"] + 1e-6:
            ends.pop()
        if ends and event["ts"] + event["dur"] > ends[-1] + 1e-6:
            return False
        ends.append(event["ts"] + event["dur"])
    return True


@pytest.fixture
def image(make_image: MakeImage) -> TimedImage:
    return make_image(
        ("draft", "drafter", 1, 2),
        ("draft", "sampler", 3.5, 0.5),
        ("verify", "target", 5, 3),
        ("draft", "drafter", 8, 1),
        seconds=10,
    )


def test_every_event_is_of_the_format(image: TimedImage, tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.json", image, "a title")
    events = checked(tmp_path / "trace.json")
    for track in {event["tid"] for event in events}:
        assert nested([event for event in events if event["ph"] == "X" and event["tid"] == track])


def test_tracks_are_named_after_the_phases_and_the_engines(image: TimedImage, tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.json", image, "a title")
    names = {
        (event["name"], event["tid"]): event["args"]["name"]
        for event in checked(tmp_path / "trace.json")
        if event["ph"] == "M"
    }
    assert names == {
        ("process_name", 0): "a title",
        ("thread_name", 0): "phase",
        ("thread_name", 1): "drafter",
        ("thread_name", 2): "sampler",
        ("thread_name", 3): "target",
    }


def test_times_are_microseconds_since_the_request(image: TimedImage, tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.json", image, "a title")
    spans = [
        (event["tid"], event["name"], round(event["ts"]), round(event["dur"]))
        for event in checked(tmp_path / "trace.json")
        if event["ph"] == "X"
    ]
    assert spans[:3] == [(0, "draft", 1e6, 3e6), (0, "verify", 5e6, 3e6), (0, "draft", 8e6, 1e6)]
    assert spans[3:] == [
        (1, "draft: 1", 1e6, 2e6),
        (2, "draft: 1", 3.5e6, 0.5e6),
        (3, "verify: 1", 5e6, 3e6),
        (1, "draft: 1", 8e6, 1e6),
    ]


def test_the_check_itself_finds_what_is_wrong(image: TimedImage, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_trace(path, image, "a title")
    content = json.loads(path.read_text())
    for broken in ({"ph": "X"}, {"ph": "Q"}, {"ts": -1}):
        events = [*content["traceEvents"][:-1], {**content["traceEvents"][-1], **broken}]
        if broken == {"ph": "X"}:
            del events[-1]["dur"]
        path.write_text(json.dumps({**content, "traceEvents": events}))
        with pytest.raises((AssertionError, KeyError)):
            checked(path)
    assert not nested([{"ts": 0, "dur": 5}, {"ts": 3, "dur": 5}])
