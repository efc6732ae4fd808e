"""Compile one graph into a plan, in the process that was started for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from mulo_engines.child import Report, peak_memory
from mulo_engines.errors import EngineUnavailable
from mulo_engines.signature import Signature
from mulo_engines.tensorrt.activations import activation_bytes
from mulo_engines.tensorrt.binding import Binding, load_binding
from mulo_engines.tensorrt.messages import build_failure, collecting_logger, lacks_fused_attention
from mulo_engines.tensorrt.monitor import progress_monitor
from mulo_engines.tensorrt.network import (
    check_network,
    decompose_attention,
    in_place_pairs,
    keep_order,
    layers,
    parse_network,
)
from mulo_engines.tensorrt.profiles import Profile, input_shapes
from mulo_engines.tensorrt.timing_cache import load_timings, save_timings

__all__ = ["Attention", "BuildJob", "BuildResult", "BuildSettings", "build_plan"]

Attention = Literal["none", "fused", "decomposed"]
"""How a plan computes attention: not at all, each in one kernel, or in several."""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What the builds of all graphs have in common.

    Attributes:
        backend: the builder.
        workspace: bytes that a kernel may use beside its tensors; None leaves that to the builder.
        timings: file of the builder's timings; None where it keeps none.
    """

    backend: str
    workspace: int | None = None
    timings: Path | None = None


@dataclass(frozen=True, slots=True)
class BuildJob:
    """One graph to compile.

    Attributes:
        settings: how.
        graph: the graph's name.
        model: the graph, whose sizes that a plan fixes are numbers.
        path: the file that `model` was, beside which its weights lie.
        signature: the inputs and outputs that it must have.
        profiles: the sizes that the plan must serve.
        plan: where the plan is written.
    """

    settings: BuildSettings
    graph: str
    model: bytes
    path: Path
    signature: Signature
    profiles: tuple[Profile, ...]
    plan: Path


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build came to.

    Attributes:
        attention: how the plan computes attention.
        in_place: the output that must be bound to the buffer of an input, by that input's name.
        activation_bytes: upper estimate of what the plan needs beside weights, inputs and outputs.
        seconds: how long the build took.
        peak_bytes: the most memory that it held on the host.
        warnings: what did not work and does not matter to the plan.
    """

    attention: Attention
    in_place: Mapping[str, str]
    activation_bytes: int
    seconds: float
    peak_bytes: int
    warnings: tuple[str, ...]


def build_plan(job: BuildJob, report: Report) -> BuildResult:
    """Compile `job` and write its plan. A process does this once: the library keeps the first logger it is given.

    Raises:
        EngineUnavailable: the builder is not installed, or does not start on this machine.
        BuildError: the parser or the builder refuses the graph.
        EngineMismatch: the parsed graph is not what it must be.
        OutOfMemory: the memory ran out.
    """
    started, errors = perf_counter(), list[str]()
    binding = load_binding(job.settings.backend)
    library, logger = binding.library, collecting_logger(binding.library, errors)
    builder = _builder(binding, logger, errors)
    network = parse_network(library, builder, logger, graph=job.graph, model=job.model, path=job.path)
    check_network(library, network, job.graph, job.signature)
    keep_order(library, network)
    config, warnings = _config(library, builder, job)
    monitor = progress_monitor(library, report)
    config.progress_monitor = monitor
    attention, plan = _compile(library, builder, network, config, job.graph, errors)
    job.plan.write_bytes(memoryview(plan))
    if job.settings.timings is not None:
        warnings.append(save_timings(config, job.settings.timings))
    return BuildResult(
        attention=attention,
        in_place=in_place_pairs(library, network),
        activation_bytes=activation_bytes(library, network, job.profiles, job.signature.inputs),
        seconds=perf_counter() - started,
        peak_bytes=peak_memory(),
        warnings=tuple(warning for warning in warnings if warning is not None),
    )


def _builder(binding: Binding, logger: Any, errors: Sequence[str]) -> Any:
    try:
        return binding.library.Builder(logger)
    except TypeError as error:  # The library answers nothing, which Python takes for a wrong type.
        raise EngineUnavailable(
            f"{binding.backend} {binding.version} does not start on this machine",
            found="; ".join(errors) or error,
            expected="an NVIDIA GPU and its driver",
            fix="build where the GPU is, or with the backend tensorrt-rtx, which needs none to build",
        ) from error


def _config(library: Any, builder: Any, job: BuildJob) -> tuple[Any, list[str | None]]:
    config = builder.create_builder_config()
    settings = job.settings
    if settings.workspace is not None:
        config.set_memory_pool_limit(library.MemoryPoolType.WORKSPACE, settings.workspace)
    for profile in job.profiles:
        _add_profile(builder, config, profile, job.signature)
    return config, [] if settings.timings is None else [load_timings(config, settings.timings)]


def _add_profile(builder: Any, config: Any, profile: Profile, signature: Signature) -> None:
    described = builder.create_optimization_profile()
    for spec in signature.inputs:
        if any(isinstance(size, str) for size in spec.shape):
            described.set_shape(spec.name, *input_shapes(profile, spec))
    config.add_optimization_profile(described)


def _compile(
    library: Any, builder: Any, network: Any, config: Any, graph: str, errors: list[str]
) -> tuple[Attention, Any]:
    """Build with every attention in one kernel, or else allow several."""
    attends = any(layer.type == library.LayerType.ATTENTION_INPUT for layer in layers(network))
    attention: Attention = "fused" if attends else "none"
    plan = builder.build_serialized_network(network, config)
    if plan is None and attends and lacks_fused_attention(errors):
        errors.clear()
        decompose_attention(library, network)
        attention, plan = "decomposed", builder.build_serialized_network(network, config)
    if plan is None:
        raise build_failure(graph, errors)
    return attention, plan
