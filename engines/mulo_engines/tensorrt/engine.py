"""Plans run by TensorRT or TensorRT-RTX on the GPU; the only module that runs one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakSet

from numpy.typing import NDArray

from mulo_engines.cuda.stream import CudaDevice, CudaStream
from mulo_engines.engine import Buffers, Call, Engine, check_inputs, closed_error, device_arrays
from mulo_engines.errors import ShapeError
from mulo_engines.signature import Signature
from mulo_engines.stream import DeviceArray
from mulo_engines.tensorrt.binding import Binding
from mulo_engines.tensorrt.loaded import read_plan
from mulo_engines.tensorrt.messages import collecting_logger, run_failure
from mulo_engines.tensorrt.once import OccasionalRuns, Shapes
from mulo_engines.tensorrt.record import EngineRecord, ProfileRecord

__all__ = ["PlanRuntime", "TensorRtEngine"]


class PlanRuntime:
    """Loads the plans of one builder; a process has one per library, which keeps the first logger it is given.

    Args:
        binding: the library.
        device: the GPU.
    """

    def __init__(self, binding: Binding, device: CudaDevice) -> None:
        self.library, self.device = binding.library, device
        self.errors: list[str] = []
        self.logger = collecting_logger(binding.library, self.errors)
        self._runtime = binding.library.Runtime(self.logger)

    def load(self, plan: Path, record: EngineRecord, signature: Signature) -> TensorRtEngine:
        """Load `plan`, which `record` describes, of a graph with this signature.

        Raises:
            EngineError: the library refuses the plan.
            EngineMismatch: the plan is not what the record says.
        """
        self.errors.clear()
        with plan.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            engine = self._runtime.deserialize_cuda_engine(content)
        if engine is None:
            raise run_failure(f"{record.graph}: {plan} cannot be loaded", self.errors)
        return TensorRtEngine(self, engine, record, signature)


class TensorRtEngine(Engine):
    """A plan with one execution context for each stream and profile that runs it.

    Contexts of one stream share the stream's scratch memory, for they never run at the same time.

    Args:
        runtime: what loaded the plan.
        engine: the plan, an `ICudaEngine`.
        record: what it must be.
        signature: names the sizes of its inputs.

    Attributes:
        scratch: bytes that it keeps between its layers, as it says itself.

    Raises:
        EngineMismatch: it is not what it must be.
    """

    def __init__(self, runtime: PlanRuntime, engine: Any, record: EngineRecord, signature: Signature) -> None:
        self._runtime, self._engine, self._record = runtime, engine, record
        self._symbols = {spec.name: spec.shape for spec in signature.inputs}
        plan = read_plan(runtime.library, engine, record, signature)
        super().__init__(plan.name, plan.inputs.values(), plan.outputs.values())
        self.scratch = max(plan.scratch)
        runtime.device.reserve_scratch(self.scratch)
        self._contexts: dict[tuple[int, int], _Context] = {}
        self._calls: WeakSet[_TensorRtCall] = WeakSet()
        self._once: OccasionalRuns | None = None
        self._lock = Lock()

    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See `Engine.run_once`; on a stream of its own."""
        check_inputs(self, inputs)
        with self._lock:
            if self._once is None:
                stream = self._runtime.device.new_stream(shares_scratch=False)
                shapes = partial(self._output_shapes, stream)
                self._once = OccasionalRuns(self, stream, shapes, self._record.in_place)
        return self._once.run(inputs)

    def close(self) -> None:
        """See `Engine.close`: calls first, then contexts, then the plan."""
        with self._lock:
            for call in tuple(self._calls):
                call.release()
            self._contexts.clear()
            self._engine = None
        if self._once is not None:
            self._once.close()

    def _bind(self, buffers: Buffers) -> Call:
        arrays = device_arrays(self, buffers)
        stream = next(iter(arrays.values())).stream
        assert isinstance(stream, CudaStream)
        for name, output in self._record.in_place.items():
            if arrays[name].address != arrays[output].address:
                raise ShapeError(
                    f"{self.name}: {name!r} is updated in place", expected=f"the same buffer under {output!r}"
                )
        shapes = {name: arrays[name].shape for name in self.inputs}
        with self._lock:
            call = _TensorRtCall(self.name, self._context(stream, self._profile(shapes)), stream, shapes, arrays)
            self._calls.add(call)
        return call

    def _context(self, stream: CudaStream, profile: int) -> _Context:
        if self._engine is None:
            raise closed_error(self.name)
        key = (id(stream), profile)
        if key not in self._contexts:
            self._contexts[key] = _Context(self._runtime, self._engine, self.name, profile, stream, self.scratch)
        return self._contexts[key]

    def _profile(self, shapes: Shapes) -> int:
        """The first profile that has kernels for `shapes`."""
        sizes: dict[str, int] = {}
        for name, shape in shapes.items():
            symbols = self._symbols[name]
            sizes |= {symbol: size for symbol, size in zip(symbols, shape, strict=True) if isinstance(symbol, str)}
        for index, profile in enumerate(self._record.profiles):
            if _serves(profile, sizes):
                return index
        raise ShapeError(
            f"{self.name}: the plan was not built for these sizes",
            found=", ".join(f"{symbol} = {size}" for symbol, size in sizes.items()),
            expected=" or ".join(map(_described, self._record.profiles)),
            fix="build the engines for as many images and queries as the pipeline is opened with",
        )

    def _output_shapes(self, stream: CudaStream, shapes: Shapes) -> Shapes:
        """Shapes of the outputs for inputs of `shapes`."""
        with self._lock:
            context = self._context(stream, self._profile(shapes))
        context.set_shapes(shapes)
        return {name: context.shape(name) for name in self.outputs}


class _Context:
    """An `IExecutionContext` for one stream and profile, with what was set in it last."""

    def __init__(
        self, runtime: PlanRuntime, engine: Any, name: str, profile: int, stream: CudaStream, scratch: int
    ) -> None:
        self._name, self._runtime = name, runtime
        self._holder: object = None
        strategy = runtime.library.ExecutionContextAllocationStrategy.USER_MANAGED
        runtime.errors.clear()
        self._context = engine.create_execution_context(strategy)
        self._require(self._context is not None, "no context can be made")
        memory = stream.scratch_of(scratch)
        self._context.set_device_memory(memory.address, memory.nbytes)
        selected = self._context.set_optimization_profile_async(profile, stream.handle)
        self._require(selected, f"profile {profile} cannot be selected")

    def enqueue(self, holder: object, shapes: Shapes, addresses: Mapping[str, int], handle: int) -> None:
        """Enqueue the plan on these buffers; `holder` is who set them last."""
        if self._holder is not holder:
            self.set_shapes(shapes)
            for name, address in addresses.items():
                self._require(self._context.set_tensor_address(name, address), f"{name!r} cannot be bound")
            self._holder = holder
        self._require(self._context.execute_async_v3(handle), "the plan cannot be enqueued")

    def set_shapes(self, shapes: Shapes) -> None:
        """Set the shapes of the inputs."""
        self._holder = None
        for name, shape in shapes.items():
            self._require(self._context.set_input_shape(name, shape), f"{name!r} cannot have shape {list(shape)}")

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, given those of the inputs."""
        return tuple(self._context.get_tensor_shape(name))

    def _require(self, done: bool, what: str) -> None:
        if not done:
            raise run_failure(f"{self._name}: {what}", self._runtime.errors)


class _TensorRtCall(Call):
    """A plan on buffers; launched as a CUDA graph where the stream's warm-up captured it."""

    def __init__(
        self,
        engine: str,
        context: _Context,
        stream: CudaStream,
        shapes: Shapes,
        arrays: Mapping[str, DeviceArray],
    ) -> None:
        self._stream = stream
        self._engine, self._context, self._shapes, self._arrays = engine, context, shapes, arrays
        self._addresses = {name: array.address for name, array in arrays.items()}
        self._launch: Callable[[], None] | None = None

    def run(self) -> None:
        """See `Call.run`."""
        if self._launch is not None:
            self._launch()
            return
        self._enqueue(self._stream.handle)
        if self._stream.warming:
            self._launch = self._stream.capture(self._enqueue)
        else:
            self._stream.slow_runs += 1

    def release(self) -> None:
        """Let go of the graph and the buffers; the next run fails."""
        name = self._engine

        def refuse() -> None:
            raise closed_error(name)

        self._launch, self._arrays = refuse, {}

    def _enqueue(self, handle: int) -> None:
        self._context.enqueue(self, self._shapes, self._addresses, handle)


def _serves(profile: ProfileRecord, sizes: Mapping[str, int]) -> bool:
    ranges = ((size, profile.sizes[symbol]) for symbol, size in sizes.items() if symbol in profile.sizes)
    return all(least <= size <= most for size, (least, _, most) in ranges)


def _described(profile: ProfileRecord) -> str:
    ranges = (f"{symbol} {least}-{most}" for symbol, (least, _, most) in profile.sizes.items())
    return f"{profile.name} ({', '.join(ranges)})"
