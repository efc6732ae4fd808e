"""What the service counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mulo_runtime.lane_pool import Load
from mulo_runtime.request import Result
from mulo_runtime.settings import method_name

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class Metrics:
    """The counters of one service.

    Args:
        load: how busy the pipeline is.
    """

    def __init__(self, load: Callable[[], Load]) -> None:
        self._registry = registry = CollectorRegistry()
        labels = ["path", "status"]
        self._responses = Counter("mulo_http_responses", "Answers by path and status", labels, registry=registry)
        self._images = Counter("mulo_images", "Finished images by method", ["method"], registry=registry)
        self._seconds = Histogram(
            "mulo_image_seconds", "From lane lease to image", ["method"], buckets=_SECONDS, registry=registry
        )
        self._queue = Histogram("mulo_queue_seconds", "Wait for a lane", buckets=_SECONDS, registry=registry)
        self._phases = Counter("mulo_phase_seconds", "Seconds inside engines by phase", ["phase"], registry=registry)
        self._passes = Counter("mulo_passes", "Passes by engine", ["engine"], registry=registry)
        self._candidates = Counter("mulo_candidates", "Candidates by verdict", ["verdict"], registry=registry)
        self._fallbacks = Counter("mulo_fallbacks", "Images for which MuLo-SD was given up", registry=registry)
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "mulo_lanes": ("Lanes", lambda: load().lanes),
            "mulo_lanes_busy": ("Lanes at work", lambda: load().lanes - load().free),
            "mulo_queue_waiting": ("Requests that wait for a lane", lambda: load().waiting),
            "mulo_lane_silence_seconds": ("Since the last pass of a lane at work", lambda: load().silence or 0.0),
        }
        for name, (text, read) in gauges.items():
            Gauge(name, text, registry=registry).set_function(read)

    def count_response(self, path: str, status: int) -> None:
        """Count an answer."""
        self._responses.labels(path, str(status)).inc()

    def count_image(self, result: Result) -> None:
        """Count an image, and what it took."""
        statistics, name = result.statistics, method_name(result.method)
        self._images.labels(name).inc()
        self._seconds.labels(name).observe(statistics.seconds)
        self._queue.observe(statistics.queue_seconds)
        self._candidates.labels("accepted").inc(statistics.accepted)
        self._candidates.labels("rejected").inc(statistics.rejected)
        self._fallbacks.inc(statistics.abandoned_share is not None)
        for phase, usage in statistics.phases.items():
            self._phases.labels(phase).inc(usage.seconds)
        for engine, usage in statistics.engines.items():
            self._passes.labels(engine).inc(usage.passes)

    def seconds_per_image(self) -> float:
        """The mean over all images so far; 1 before the first."""
        samples = [sample for metric in self._seconds.collect() for sample in metric.samples]
        total = sum(sample.value for sample in samples if sample.name.endswith("_sum"))
        count = sum(sample.value for sample in samples if sample.name.endswith("_count"))
        return total / count if count else 1.0

    def text(self) -> bytes:
        """Everything, in the format that Prometheus scrapes."""
        return generate_latest(self._registry)
