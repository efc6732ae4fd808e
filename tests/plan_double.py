"""TensorRT's run side without a GPU: plans that name a graph, which ONNX Runtime computes on the stub driver's memory.

The classes have the methods of the library's own that mulo calls, by the same names of methods and arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt_rtx
from mulo_engines.bundle import Bundle, describe_file
from mulo_engines.cache_tensors import cache_pairs
from mulo_engines.cuda.gpu import detect_gpu
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_engines.signature import graph_signature
from mulo_engines.tensorrt.engine_set import engines_root, set_folder
from mulo_engines.tensorrt.profiles import Profile, graph_profiles, input_shapes, sizes_of_plans, static_sizes
from mulo_engines.tensorrt.record import EngineRecord, EngineSetRecord, GpuRecord, ProfileRecord, write_record
from mulo_export.options import CompileOptions
from mulo_export.plan_sizes import plan_sizes
from numpy.typing import NDArray

__all__ = ["CudaEngine", "ExecutionContext", "PlanLibrary", "Runtime", "array_at", "write_plans"]

_KINDS = {"float32": "FLOAT", "float16": "HALF", "int64": "INT64", "bool": "BOOL", "uint8": "UINT8"}
SCRATCH = 4096


def write_plans(bundle: Bundle, options: CompileOptions) -> Path:
    """Engines of `bundle` for this machine's GPU, whose plans hold the name of a graph and the length of its cache."""
    sizes, version, gpu = plan_sizes(bundle.manifest, options), tensorrt_rtx.__version__, detect_gpu()
    folder = set_folder(engines_root(bundle.path), "tensorrt-rtx", version, gpu)
    folder.mkdir(parents=True)
    files, engines = {file.path: file for file in bundle.manifest.files}, []
    for graph in bundle.manifest.graphs:
        for of_plan in sizes_of_plans(graph.name, sizes):
            slots = static_sizes(graph.name, of_plan).get("S")
            plan = f"{graph.name}-{slots}.plan"
            (folder / plan).write_text(f"{graph.name} {slots or 0}")
            profiles = graph_profiles(bundle.manifest, graph.name, of_plan)
            engines.append(
                EngineRecord(
                    graph=graph.name,
                    source=files[graph.file],
                    weights=tuple(files[path] for path in graph.weights),
                    plan=describe_file(folder, plan),
                    slots=slots,
                    profiles=tuple(ProfileRecord(name=profile.name, sizes=dict(profile.sizes)) for profile in profiles),
                    in_place=cache_pairs(graph_signature(bundle.manifest, graph.name).inputs),
                    attention="none",
                    activation_bytes=SCRATCH,
                    build_seconds=1.0,
                    build_peak_bytes=1,
                )
            )
    record = EngineSetRecord(
        backend="tensorrt-rtx",
        builder_version=version,
        gpu=GpuRecord.of(gpu),
        precision=bundle.manifest.precision,
        images=options.images,
        queries=sizes.target.queries,
        engines=tuple(engines),
    )
    write_record(record, folder)
    return folder


class PlanLibrary:
    """What mulo uses of the library: its own names, but for the runtime."""

    TensorIOMode = tensorrt_rtx.TensorIOMode
    TensorLocation = tensorrt_rtx.TensorLocation
    TensorFormat = tensorrt_rtx.TensorFormat
    ExecutionContextAllocationStrategy = tensorrt_rtx.ExecutionContextAllocationStrategy
    ILogger = tensorrt_rtx.ILogger

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.engines: dict[str, CudaEngine] = {}
        self.break_engine: Callable[[CudaEngine], None] = lambda engine: None
        self.unreadable: set[str] = set()

    def Runtime(self, logger: Any) -> Runtime:
        return Runtime(self, logger)


class Runtime:
    """Double of `tensorrt.Runtime`."""

    def __init__(self, library: PlanLibrary, logger: Any) -> None:
        self._library, self._logger = library, logger

    def deserialize_cuda_engine(self, serialized_engine: Any) -> CudaEngine | None:
        name, slots = bytes(serialized_engine).decode().split()
        if name in self._library.unreadable:
            self._logger.log(tensorrt_rtx.ILogger.Severity.ERROR, "the engine is not of this version")
            return None
        engine = self._library.engines[name] = CudaEngine(self._library.bundle, name, int(slots))
        self._library.break_engine(engine)
        return engine


class CudaEngine:
    """Double of `tensorrt.ICudaEngine`: one graph, whose caches have the length of the plan."""

    def __init__(self, bundle: Bundle, name: str, slots: int) -> None:
        signature = graph_signature(bundle.manifest, name)
        record = _record(bundle, name, slots)
        self.name, self.slots = name, slots
        self.inputs = {spec.name: spec for spec in signature.inputs}
        self.specs = self.inputs | {spec.name: spec for spec in signature.outputs}
        self.aliases = {output: source for source, output in cache_pairs(signature.inputs).items()}
        self._profiles = record.profiles
        self.num_io_tensors, self.num_optimization_profiles = len(self.specs), len(record.profiles)
        self.graph = OnnxRuntimeEngine.load(bundle.graph(name), name=name, threads=1)
        self.contexts: list[ExecutionContext] = []
        self.enqueues = True

    def get_tensor_name(self, index: int) -> str:
        return list(self.specs)[index]

    def get_tensor_mode(self, name: str) -> Any:
        return tensorrt_rtx.TensorIOMode.INPUT if name in self.inputs else tensorrt_rtx.TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return getattr(tensorrt_rtx.DataType, _KINDS[self.specs[name].dtype.name])

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        fixed = {"S": self.slots or -1}
        return tuple(fixed.get(size, -1) if isinstance(size, str) else size for size in self.specs[name].shape)

    def get_tensor_location(self, name: str) -> Any:
        return tensorrt_rtx.TensorLocation.DEVICE

    def get_tensor_format(self, name: str) -> Any:
        return tensorrt_rtx.TensorFormat.LINEAR

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        profile = self._profiles[profile_index]
        return list(input_shapes(Profile(profile.name, profile.sizes), self.inputs[name]))

    def get_aliased_input_tensor(self, name: str) -> str | None:
        return self.aliases.get(name)

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return SCRATCH - profile_index

    def create_execution_context(self, strategy: Any) -> ExecutionContext:
        assert strategy == tensorrt_rtx.ExecutionContextAllocationStrategy.USER_MANAGED
        self.contexts.append(ExecutionContext(self))
        return self.contexts[-1]


class ExecutionContext:
    """Double of `tensorrt.IExecutionContext`; a run happens when it is enqueued.

    Attributes:
        runs: handles of the streams that it was enqueued on.
        scratch: address and size of the memory that it was given.
        profile: the profile that was selected.
        binds: how often an address was set.
    """

    def __init__(self, engine: CudaEngine) -> None:
        self._engine = engine
        self.runs: list[int] = []
        self.scratch: tuple[int, int] | None = None
        self.profile, self.binds = -1, 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}

    def set_device_memory(self, memory: int, size: int) -> None:
        self.scratch = memory, size

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        self.profile = profile_index
        return stream_handle > 0 and profile_index < self._engine.num_optimization_profiles

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self._shapes[name] = shape
        return name in self._engine.inputs

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self.binds += 1
        self._addresses[name] = memory
        return name in self._engine.specs

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        blank = {spec.name: np.zeros(self._shapes[spec.name], spec.dtype) for spec in self._engine.inputs.values()}
        return self._engine.graph.run_once(blank)[name].shape

    def execute_async_v3(self, stream_handle: int) -> bool:
        assert self.scratch is not None
        self.runs.append(stream_handle)
        inputs = {
            name: array_at(self._addresses[name], self._shapes[name], spec.dtype)
            for name, spec in self._engine.inputs.items()
        }
        for name, output in self._engine.graph.run_once(inputs).items():
            ctypes.memmove(self._addresses[name], np.ascontiguousarray(output).ctypes.data, output.nbytes)
        return self._engine.enqueues


def array_at(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array at an address of the stub driver's memory, which is the host's."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.zeros(shape, dtype)
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype).reshape(shape)


def _record(bundle: Bundle, name: str, slots: int) -> EngineRecord:
    (path,) = engines_root(bundle.path).glob("*/engine.json")
    record = EngineSetRecord.model_validate_json(path.read_bytes())
    return next(engine for engine in record.engines if (engine.graph, engine.slots or 0) == (name, slots))
