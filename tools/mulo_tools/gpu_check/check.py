"""Checks one bundle on one backend: compile it, compare it, and time it against what the memory could deliver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

from mulo_engines.backends import open_backend
from mulo_engines.buckets import slot_bucket
from mulo_engines.bundle import Bundle
from mulo_engines.cache_slots import recommended_buffers
from mulo_engines.child import Progress
from mulo_engines.cost import ModelCost, PassSize
from mulo_engines.errors import MuloError
from mulo_engines.tensorrt.binding import BUILDERS
from mulo_export.compilation import compile_bundle
from mulo_export.options import CompileOptions
from mulo_runtime import AutoRegressive, Method, Pipeline, Request, Statistics, default_method, default_sampling
from mulo_runtime.conditions import example_condition

from mulo_tools.gpu_check.clock import Clock
from mulo_tools.gpu_check.subjects import Subject
from mulo_tools.verify.graph_inputs import COMPARED_GRAPHS
from mulo_tools.verify.graphs import compare_graph
from mulo_tools.verify.side import Side
from mulo_tools.verify.tokens import compare_tokens

__all__ = ["Finding", "check", "step_bytes"]

_EDGE = 1e-4
_DECODE = "decode"
"""The phase that turns tokens into pixels, which is no part of a step."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a subject came to on a backend; None where it did not come to it.

    Attributes:
        subject: name of the subject.
        backend: name of the backend.
        agrees: whether it computes what ONNX Runtime computes on the CPU.
        plain_seconds: a plainly decoded image, warm.
        mulo_seconds: MuLo-SD's image, by variant, warm.
        step_seconds: a step of plain decoding, everything between its tokens included.
        limit_seconds: what moving a step's bytes takes at the bandwidth that was measured.
        failure: what stopped the check.
    """

    subject: str
    backend: str
    agrees: bool | None = None
    plain_seconds: float | None = None
    mulo_seconds: tuple[float, ...] = ()
    step_seconds: float | None = None
    limit_seconds: float | None = None
    failure: str | None = None


def check(
    name: str, subject: Subject, bundle: Bundle, backend: str, threads: int, bandwidth: float | None, clock: Clock
) -> Finding:
    """Check `bundle` on `backend`; what goes wrong ends the check and becomes part of what was found.

    Args:
        name: of the subject.
        subject: what is checked.
        bundle: the subject's.
        backend: name of the backend.
        threads: of an engine call, on the CPU.
        bandwidth: bytes a second that the backend's memory delivers; None where it is not known.
        clock: the time that is left.
    """
    finding = Finding(name, backend)
    try:
        for stage in _stages(finding, subject, bundle, threads, clock):
            finding = stage
    except MuloError as error:
        finding = replace(finding, failure=str(error))
    if bandwidth is not None and finding.step_seconds is not None:
        finding = replace(finding, limit_seconds=step_bytes(bundle, compiled=backend in BUILDERS) / bandwidth)
    return finding


def step_bytes(bundle: Bundle, *, compiled: bool) -> float:
    """Bytes that the target moves in a step of plain decoding, mean over an image.

    Args:
        bundle: the bundle.
        compiled: whether caches have the one length that a plan has, or grow with the image.
    """
    manifest, cost = bundle.manifest, ModelCost.of(bundle, "target")
    _, target = recommended_buffers(manifest, queries=256)
    tokens, prefix = manifest.target.rows * manifest.target.cols, manifest.condition.length
    batch = 2 if default_sampling(manifest).guided else 1
    slots = [target.slots if compiled else slot_bucket(prefix + token, target.slots) for token in range(1, tokens)]
    return sum(cost.cost(PassSize(batch, 1, length, 1)).bytes for length in slots) / len(slots)


def _stages(finding: Finding, subject: Subject, bundle: Bundle, threads: int, clock: Clock) -> Iterator[Finding]:
    """`finding`, stage by stage with more of it found."""
    _build(bundle, finding.backend, clock)
    yield (finding := replace(finding, agrees=_agrees(subject, bundle, finding.backend, threads, clock)))
    own = default_method(bundle.manifest)
    variants = [own.with_changes(**changes) for changes in subject.variants.values()]
    opened = Pipeline.open(bundle.path, backend=finding.backend, threads=threads, verify=False, methods=variants)
    with opened as pipeline:
        if open_backend(finding.backend).on_device:
            clock.remaining("warming up")
            pipeline.warm_up(AutoRegressive())
        plain, statistics = _warm_image(pipeline, AutoRegressive(), clock)
        step = (plain - statistics.phases[_DECODE].seconds) / statistics.engines["target"].passes
        yield (finding := replace(finding, plain_seconds=plain, step_seconds=step))
        for method in variants:
            seconds, _ = _warm_image(pipeline, method, clock)
            yield (finding := replace(finding, mulo_seconds=(*finding.mulo_seconds, seconds)))


def _build(bundle: Bundle, backend: str, clock: Clock) -> None:
    """Compile the bundle where the backend needs it; a build ends when the time does."""

    def report(_: Progress) -> None:
        clock.remaining("compiling")

    if backend in BUILDERS:
        compile_bundle(bundle, backend, CompileOptions(), lambda _: report)


def _agrees(subject: Subject, bundle: Bundle, backend: str, threads: int, clock: Clock) -> bool:
    """Whether graphs and tokens are those that ONNX Runtime gives on the CPU."""
    with (
        Side.load("checked", bundle, open_backend(backend, threads=threads)) as checked,
        Side.load("reference", bundle, open_backend("onnxruntime")) as reference,
    ):
        for graph in COMPARED_GRAPHS:
            clock.remaining("comparing")
            if not compare_graph(checked, reference, graph, seed=0).within:
                return False
        condition, seeds = example_condition(bundle.manifest.condition), range(subject.images)
        return all(row.within for row in compare_tokens(checked, reference, condition, seeds, _EDGE))


def _warm_image(pipeline: Pipeline, method: Method, clock: Clock) -> tuple[float, Statistics]:
    """Seconds of the second image of `method`, and what it took."""
    condition = example_condition(pipeline.bundle.manifest.condition)
    for seed in (0, 1):
        deadline = clock.remaining("decoding")
        start = perf_counter()
        result = pipeline.generate(Request(condition, seed, method, deadline=deadline))
        seconds = perf_counter() - start
    return seconds, result.statistics
