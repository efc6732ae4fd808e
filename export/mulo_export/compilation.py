"""Compile the graphs of a bundle into the engines of one backend, which appear together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle, describe_file
from mulo_engines.child import Report, run_in_child
from mulo_engines.cuda.gpu import Gpu, detect_gpu
from mulo_engines.errors import BuildError
from mulo_engines.manifest import FileRecord, GraphRecord, Manifest
from mulo_engines.memory import MemoryPlan, available_memory
from mulo_engines.signature import graph_signature
from mulo_engines.supported import check_gpu
from mulo_engines.tensorrt.binding import load_binding
from mulo_engines.tensorrt.build import BuildJob, BuildResult, BuildSettings, build_plan
from mulo_engines.tensorrt.engine_set import engines_root, set_folder
from mulo_engines.tensorrt.profiles import PlanSizes, graph_profiles, sizes_of_plans, static_sizes
from mulo_engines.tensorrt.record import (
    RECORD_NAME,
    EngineRecord,
    EngineSetRecord,
    GpuRecord,
    ProfileRecord,
    write_record,
)

from mulo_export.graphs.builder import with_fixed_sizes
from mulo_export.options import CompileOptions
from mulo_export.plan_sizes import lane_plan, plan_sizes
from mulo_export.precision import TENSORRT_FORMS
from mulo_export.publish import publication

__all__ = ["Compilation", "Reporter", "check_onnxruntime", "compile_bundle", "plan_job"]

Reporter = Callable[[str], Report]
"""Gives what to call with the progress of the graph of this name."""

_BUILDER_BYTES = 400 * 2**20
_WEIGHT_COPIES = 4


@dataclass(frozen=True, slots=True)
class Compilation:
    """Where the engines are and what they are."""

    folder: Path
    record: EngineSetRecord
    warnings: tuple[str, ...]


def compile_bundle(bundle: Bundle, backend: str, options: CompileOptions, reporter: Reporter) -> Compilation:
    """Build a plan of every graph of `bundle` with the builder `backend`, one after the other.

    Raises:
        EngineUnavailable: the builder is not installed, or does not start on this machine.
        UnsupportedVersion: mulo is not made for the builder's version, the GPU or its driver.
        BuildError: a graph is refused, or the bundle is in the form of another backend.
        EngineMismatch: a graph is not what the manifest says.
        OutOfMemory: the memory does not suffice; refused beforehand where that is known.
        BundleError: another process is building the same engines.
        RequestError: see `plan_sizes`.
    """
    _refuse_form(bundle)
    binding, manifest = load_binding(backend), bundle.manifest
    sizes = plan_sizes(manifest, options)
    gpu = run_in_child("looking for a GPU", _detect, lambda _: None)
    if gpu is not None:
        check_gpu(gpu)
    workspace = None if gpu is None else _workspace(lane_plan(manifest, sizes), gpu)
    root = engines_root(bundle.path, options.engines)
    folder = set_folder(root, backend, binding.version, gpu)
    timings = folder.with_name(f"{folder.name}.timings") if binding.caches_timings else None
    settings = BuildSettings(backend, workspace, timings)
    engines, warnings = list[EngineRecord](), list[str]()
    with publication(folder, force=True, marker=RECORD_NAME) as staging:
        for graph in manifest.graphs:
            _host_memory(manifest, graph).require(available_memory())
            for of_plan in sizes_of_plans(graph.name, sizes):
                job = plan_job(bundle, graph, of_plan, settings, staging)
                result = run_in_child(f"building {graph.name}", partial(build_plan, job), reporter(graph.name))
                engines.append(_record(manifest, graph, job, result, of_plan))
                warnings += result.warnings
        record = _set_record(backend, binding.version, gpu, manifest, sizes, engines)
        write_record(record, staging)
    return Compilation(folder, record, tuple(dict.fromkeys(warnings)))


def check_onnxruntime(bundle: Bundle) -> None:
    """Load every graph once: ONNX Runtime compiles when it loads, so that there is nothing to keep.

    Raises:
        EngineError: a graph cannot be loaded.
    """
    backend = open_backend("onnxruntime", threads=1)
    for graph in bundle.manifest.graphs:
        backend.load(bundle, graph.name).close()


def _refuse_form(bundle: Bundle) -> None:
    """Refuse a precision that only ONNX Runtime reads, before the parser refuses node by node."""
    form = TENSORRT_FORMS.get(bundle.manifest.precision)
    if form is not None:
        raise BuildError(
            f"{bundle.path}: the weights are in the form of ONNX Runtime, which NVIDIA's parser rejects",
            found=f"precision {bundle.manifest.precision}",
            expected=f"precision {form}, or one without integers",
            fix=f"export the bundle again with --precision {form}",
        )


def _detect(_: Report) -> Gpu | None:
    """Ask in another process, for a process that asks holds memory of the GPU."""
    return detect_gpu()


def _workspace(plan: MemoryPlan, gpu: Gpu) -> int:
    """What the GPU has beside a lane."""
    plan.require(gpu.free_bytes)
    return gpu.free_bytes - plan.total


def _host_memory(manifest: Manifest, graph: GraphRecord) -> MemoryPlan:
    """What building a graph takes on the host, from measurements: the builder holds its weights several times."""
    weights = sum(file.size for file in _files(manifest, graph.weights))
    return MemoryPlan({"builder": _BUILDER_BYTES, f"{graph.name}, {_WEIGHT_COPIES} times": _WEIGHT_COPIES * weights})


def plan_job(bundle: Bundle, graph: GraphRecord, sizes: PlanSizes, settings: BuildSettings, folder: Path) -> BuildJob:
    """The build of a graph into `folder`."""
    path, fixed = bundle.path / graph.file, static_sizes(graph.name, sizes)
    return BuildJob(
        settings=settings,
        graph=graph.name,
        model=with_fixed_sizes(path, fixed),
        path=path,
        signature=graph_signature(bundle.manifest, graph.name),
        profiles=graph_profiles(bundle.manifest, graph.name, sizes),
        plan=folder / f"{'-'.join([graph.name, *map(str, fixed.values())])}.plan",
    )


def _record(
    manifest: Manifest, graph: GraphRecord, job: BuildJob, result: BuildResult, sizes: PlanSizes
) -> EngineRecord:
    (source,) = _files(manifest, (graph.file,))
    return EngineRecord(
        graph=graph.name,
        source=source,
        weights=_files(manifest, graph.weights),
        plan=describe_file(job.plan.parent, job.plan.name),
        slots=static_sizes(graph.name, sizes).get("S"),
        profiles=tuple(ProfileRecord(name=profile.name, sizes=dict(profile.sizes)) for profile in job.profiles),
        in_place=dict(result.in_place),
        attention=result.attention,
        activation_bytes=result.activation_bytes,
        build_seconds=result.seconds,
        build_peak_bytes=result.peak_bytes,
    )


def _set_record(
    backend: str, version: str, gpu: Gpu | None, manifest: Manifest, sizes: PlanSizes, engines: list[EngineRecord]
) -> EngineSetRecord:
    return EngineSetRecord(
        backend=backend,
        builder_version=version,
        gpu=GpuRecord.of(gpu),
        precision=manifest.precision,
        images=sizes.images,
        queries=sizes.target.queries,
        engines=tuple(engines),
    )


def _files(manifest: Manifest, paths: tuple[str, ...]) -> tuple[FileRecord, ...]:
    return tuple(file for file in manifest.files if file.path in paths)
