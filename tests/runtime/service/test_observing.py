"""What is seen of a service from outside: metrics, log lines, spans."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from mulo_runtime.service.logs import JsonLines
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serving import Service, eventually

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """Collects the spans of this process, whose provider can be set but once."""
    collected, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(collected))
    trace.set_tracer_provider(provider)
    yield collected
    provider.shutdown()


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def test_metrics_count_images_passes_phases_and_answers(service: Service) -> None:
    names = ("mulo_images_total", "mulo_candidates_total", "mulo_passes_total", "mulo_queue_seconds_count")
    before = {name: service.counted(name) for name in names}
    refused = service.counted('mulo_http_responses_total{path="/v1/images/generations",status="400"}')
    service.post({"n": 2, "seed": 1})
    service.post({"style": "vivid"})
    grown = {name: service.counted(name) - before[name] for name in names}
    assert grown["mulo_images_total"] == grown["mulo_queue_seconds_count"] == 2
    assert grown["mulo_candidates_total"] == 2 * 64
    assert grown["mulo_passes_total"] > 20
    again = service.counted('mulo_http_responses_total{path="/v1/images/generations",status="400"}')
    assert again == refused + 1
    text = service.get("/metrics").text
    for line in (
        "mulo_lanes 2.0",
        "mulo_lanes_busy 0.0",
        "mulo_queue_waiting 0.0",
        'mulo_phase_seconds_total{phase="verify"}',
    ):
        assert line in text


def test_paths_that_do_not_exist_are_one_series(service: Service) -> None:
    for path in ("/wp-login.php", "/a/b/c"):
        service.get(path)
    text = service.get("/metrics").text
    assert "wp-login" not in text
    assert 'path="other",status="404"' in text


def test_an_image_has_a_span_with_one_for_every_phase_below_the_callers(
    service: Service, exporter: InMemorySpanExporter
) -> None:
    exporter.clear()
    service.post({"seed": 1}, headers={"traceparent": PARENT})
    eventually(lambda: any(span.name.startswith("POST") for span in exporter.get_finished_spans()))
    spans = {span.name: span for span in exporter.get_finished_spans()}
    root, image = spans["POST /v1/images/generations"], spans["image"]
    assert root.parent is not None
    assert root.parent.span_id == int(PARENT.split("-")[2], 16)
    assert image.context.trace_id == root.context.trace_id
    assert {"queue", "draft", "upsample", "verify", "resample", "decode"} <= spans.keys()
    parts = [
        span for span in spans.values() if span.parent is not None and span.parent.span_id == image.context.span_id
    ]
    assert sum(map(seconds, parts)) <= seconds(image)


def test_every_request_is_one_line_that_machines_read(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mulo_runtime.service.access"):
        answer = service.post({"seed": 1})
        eventually(lambda: bool(caplog.records))
    line = json.loads(JsonLines().format(caplog.records[-1]))
    assert line["request"] == answer.headers["x-request-id"]
    assert (line["message"], line["path"], line["status"]) == ("request", "/v1/images/generations", 200)


def test_a_log_line_of_a_failure_holds_its_traceback() -> None:
    try:
        raise ValueError("injected")
    except ValueError:
        record = logging.LogRecord("mulo", logging.ERROR, "", 0, "it %s", ("failed",), sys.exc_info())
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["message"]) == ("error", "it failed")
    assert "ValueError: injected" in line["exception"]
