"""Pipelines and plans on the stub driver, for a process of its own, which finds them by the name of this module."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt_rtx
from click.testing import CliRunner
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.cuda.stream import CudaStream
from mulo_engines.engine import Engine
from mulo_engines.errors import MuloError
from mulo_engines.onnxruntime import cuda_backend, cuda_engine
from mulo_engines.stream import DeviceArray, Stream
from mulo_export.options import CompileOptions
from mulo_runtime import AutoRegressive, MuloSD, Pipeline
from mulo_runtime.capacity import lane_sizes
from mulo_tools.cli import main
from pipelines import request
from plan_double import CudaEngine, ExecutionContext, PlanLibrary, write_plans
from session_double import Session

__all__ = [
    "broken",
    "contexts",
    "draw",
    "draw_by_provider",
    "generate",
    "lengths",
    "misuse",
    "profile",
    "unserved",
    "verify",
    "without_gpu",
]

BACKEND = "tensorrt-rtx"


def draw(path: Path, methods: list[Any], images: int) -> list[list[Any]]:
    """Tokens, read-backs by phase and slow runs of images by each method, before a warm-up and after it."""
    _compile(path, methods, images)
    # The stub launches nothing: what a graph is to do is done again.
    CudaStream.capture = lambda stream, enqueue: lambda: enqueue(stream.handle)  # type: ignore[method-assign]
    with Pipeline.open(path, backend=BACKEND, methods=methods, images=images, verify=False) as pipeline:
        cold = [_drawn(pipeline, method, images) for method in methods]
        pipeline.warm_up(*methods)
        return [cold, [_drawn(pipeline, method, images) for method in methods]]


def draw_by_provider(path: Path, methods: list[Any]) -> list[Any]:
    """Tokens of an image by each method, drawn by ONNX Runtime's CUDA provider on one of two lanes."""
    cuda_backend.require_provider = lambda: None
    cuda_engine.ort.InferenceSession = lambda path, options, providers: Session(path, [providers[0][0]])
    settings: dict[str, Any] = {"methods": methods, "lanes": 2, "verify": False}
    with Pipeline.open(path, backend="onnxruntime-cuda", **settings) as pipeline:
        return [pipeline.generate(request(0, method)).tokens for method in methods]


def _drawn(pipeline: Pipeline, method: Any, images: int) -> tuple[Any, dict[str, int], int]:
    results = pipeline.generate_batch([request(seed, method) for seed in range(images)])
    statistics = results[0].statistics
    read_backs = {phase: usage.read_backs for phase, usage in statistics.phases.items()}
    return [result.tokens for result in results], read_backs, statistics.slow_runs


def contexts(path: Path) -> list[tuple[str, int, Any, int, int]]:
    """Graph, profile, scratch memory, runs and bound addresses of every context that plain decoding makes."""
    library = _compile(path, [MuloSD()])
    with Pipeline.open(path, backend=BACKEND, methods=[AutoRegressive()], verify=False) as pipeline:
        pipeline.generate(request(0, AutoRegressive()))
    return [
        (engine.name, context.profile, _shared_scratch(engine, context), len(context.runs), context.binds)
        for engine in library.engines.values()
        for context in engine.contexts
    ]


def _shared_scratch(engine: CudaEngine, context: ExecutionContext) -> tuple[int, int] | None:
    """A context's scratch memory, but for conditions, which are encoded on a stream of their own."""
    return None if engine.name.endswith(".condition") else context.scratch


def broken(path: Path) -> dict[str, MuloError | None]:
    """The error of a pipeline whose target's plan has a fault, by fault."""
    library = _compile(path, [MuloSD()])
    faults: dict[str, Callable[[CudaEngine], object]] = {
        "alias": lambda engine: engine.aliases.clear(),
        "profiles": lambda engine: setattr(engine, "num_optimization_profiles", 1),
        "dtype": lambda engine: _declare(engine, tensorrt_rtx.DataType.HALF),
        "kind": lambda engine: _declare(engine, tensorrt_rtx.DataType.FP8),
        "execute": lambda engine: setattr(engine, "enqueues", False),
        "context": lambda engine: setattr(engine, "create_execution_context", lambda strategy: None),
    }
    errors = dict[str, MuloError | None]()
    for fault, break_plan in faults.items():
        library.break_engine = partial(_break_target, break_plan)
        errors[fault] = _error(lambda: _generate(path))
    library.break_engine = lambda engine: None
    library.unreadable.add("target")
    return {**errors, "refused": _error(lambda: _generate(path))}


def _break_target(break_plan: Callable[[CudaEngine], object], engine: CudaEngine) -> None:
    if engine.name == "target":
        break_plan(engine)


def _declare(engine: CudaEngine, kind: Any) -> None:
    real = engine.get_tensor_dtype
    engine.get_tensor_dtype = lambda name: kind if name == "logits" else real(name)  # type: ignore[method-assign]


def _generate(path: Path) -> None:
    with Pipeline.open(path, backend=BACKEND, methods=[AutoRegressive()], verify=False) as pipeline:
        pipeline.generate(request(0, AutoRegressive()))


def misuse(path: Path) -> list[MuloError | None]:
    """The errors of caches apart, of a size without a profile, and of an engine that was closed."""
    _compile(path, [MuloSD()])
    backend, bundle = open_backend(BACKEND), Bundle.open(path, verify="size")
    stream = backend.new_stream()
    target, decoder = backend.load(bundle, "target"), backend.load(bundle, "decoder")
    apart, one, two = _blank(target, stream), _pictures(stream, 1), _pictures(stream, 2)
    call = decoder.bind(one)
    call.run()
    errors = [_error(lambda: target.bind(apart)), _error(lambda: decoder.bind(two))]
    decoder.close()
    decoder.close()
    return [*errors, _error(call.run), _error(lambda: decoder.bind(one))]


def _blank(engine: Engine, stream: Stream) -> dict[str, DeviceArray]:
    """Buffers of a pass of one query, caches in and out apart."""
    cache = (2, *map(int, engine.inputs["k_cache.0"].shape[1:]))
    shapes: dict[str, tuple[int, ...]] = {
        "cond_embeds": (2, 0, 32),
        "token_ids": (2, 1),
        "position_ids": (2, 1),
        "write_index": (2,),
        "attn_mask": (1, 1, 1, cache[2]),
        "logit_rows": (2, 1),
        "logits": (2, 1, 64),
    }
    specs = {**engine.inputs, **engine.outputs}
    return {name: stream.zeros(shapes.get(name, cache), spec.dtype) for name, spec in specs.items()}


def _pictures(stream: Stream, images: int) -> dict[str, DeviceArray]:
    """Buffers of a decoder."""
    tokens, pixels, numbers = np.dtype(np.int64), np.dtype(np.uint8), np.dtype(np.float32)
    outputs = {"image": stream.zeros((images, 32, 32, 3), pixels), "witness": stream.zeros((images,), numbers)}
    return {"token_ids": stream.zeros((images, 8, 8), tokens), **outputs}


def unserved(path: Path, *settings: dict[str, Any]) -> list[MuloError | None]:
    """The errors of opening engines for one image by the default method with each of `settings`."""
    _compile(path, [MuloSD()])
    opened: dict[str, Any] = {"backend": BACKEND, "verify": False, "methods": [AutoRegressive()]}
    return [_error(lambda each=each: Pipeline.open(path, **{**opened, **each})) for each in settings]


def verify(path: Path) -> tuple[int, str]:
    """Exit code and output of comparing these engines with ONNX Runtime."""
    _compile(path, [MuloSD()])
    return _invoke("verify", str(path), "--backends", f"onnxruntime,{BACKEND}", "--images", "1")


def generate(path: Path, out: Path) -> tuple[int, str]:
    """Exit code and output of making an image with these engines."""
    _compile(path, [MuloSD()])
    return _invoke(
        "generate", str(path), "--prompt", "red circle", "--backend", BACKEND, "--out", str(out), "--seed", "3"
    )


def profile(path: Path, out: Path) -> tuple[int, str]:
    """Exit code and output of profiling these engines."""
    _compile(path, [MuloSD()])
    arguments = ["--queries", "4", "--seconds", "0.01", "--images", "1", "--matrix", "64"]
    files = ["--json", str(out / "p.json"), "--png", str(out / "p.png"), "--trace", str(out / "p.trace.json")]
    return _invoke("profile", str(path), "--backend", BACKEND, *arguments, *files)


def _invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def without_gpu(path: Path) -> MuloError | None:
    """The error of opening a pipeline on a machine without a GPU."""
    return _error(lambda: Pipeline.open(path, backend=BACKEND, verify=False))


def lengths(path: Path, short: int) -> list[tuple[int, Any]]:
    """S of the target's plan and the tokens, by plain decoding, in pipelines that hold it alone and MuLo-SD, too."""
    library, found = _compile(path, [MuloSD()], target_short_slots=short), []
    for methods in ([AutoRegressive()], [MuloSD()]):
        with Pipeline.open(path, backend=BACKEND, methods=methods, verify=False) as pipeline:
            tokens = pipeline.generate(request(0, AutoRegressive())).tokens
            found.append((library.engines["target"].slots, tokens))
    return found


def _compile(path: Path, methods: list[Any], images: int = 1, **options: Any) -> PlanLibrary:
    """Have plans for `methods` beside the bundle, and the library's double load them."""
    bundle = Bundle.open(path, verify="size")
    sizes = lane_sizes(bundle.manifest, methods, 256)
    slots = {"target_slots": sizes.target.slots, "drafter_slots": sizes.drafter.slots}
    write_plans(bundle, CompileOptions(images=images, **slots, **options))
    library = PlanLibrary(bundle)
    tensorrt_rtx.Runtime = library.Runtime
    return library


def _error(action: Callable[[], object]) -> MuloError | None:
    try:
        action()
    except MuloError as error:
        return error
    return None
