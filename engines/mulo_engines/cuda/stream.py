"""A stream of an NVIDIA GPU, through `cuda.core`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_engines.cuda.failures import translated
from mulo_engines.errors import EngineUnavailable
from mulo_engines.stream import DeviceArray, Mark, Stream

try:
    from cuda.core import Buffer, Device, Event, LegacyPinnedMemoryResource
    from cuda.core import Stream as CudaQueue
except ImportError as error:
    raise EngineUnavailable(
        "cuda.core, which asks the GPU's driver, is not installed",
        fix="pip install 'mulo[gpu]', 'mulo[tensorrt]' or 'mulo[tensorrt-rtx]'",
    ) from error

__all__ = ["CudaDevice", "CudaStream"]


class CudaDevice:
    """A GPU as the engines of one backend share it.

    Args:
        index: the GPU's number.

    Attributes:
        scratch: bytes that every stream holds for what engines keep between their layers.

    Raises:
        EngineError: there is no such GPU.
    """

    def __init__(self, index: int = 0) -> None:
        with translated(f"GPU {index}"):
            self._device = Device(index)
            self._device.set_current()
        self._capture = Lock()
        self.scratch = 0

    def reserve_scratch(self, size: int) -> None:
        """Have every stream that is made from now on hold `size` bytes for what engines keep between their layers."""
        self.scratch = max(self.scratch, size)

    def new_stream(self, *, shares_scratch: bool = True, beside: CudaStream | None = None) -> CudaStream:
        """A stream of this GPU, with the scratch memory that is reserved, or without.

        Its work is in order with that of the stream `beside`, where one is given.
        """
        scratch = self.scratch if shares_scratch else 0
        return CudaStream(self._device, scratch, self._capture, beside)


class CudaStream(Stream):
    """A stream of a GPU.

    Args:
        device: the GPU.
        scratch: bytes for what engines keep between their layers; they run one after the other, and share them.
        capture: held while work is captured, for captures of one process must not meet.
        beside: another stream in whose queue the work of this one goes; None makes a queue.
    """

    def __init__(self, device: Device, scratch: int, capture: Lock, beside: CudaStream | None = None) -> None:
        super().__init__()
        self._device, self._capture = device, capture
        self._pinned = LegacyPinnedMemoryResource()
        self.attach()
        with translated("a stream of the GPU"):
            self._stream: CudaQueue = device.create_stream() if beside is None else beside._stream
        self._owned, self._closed = beside is None, False
        self._scratch = self.zeros((scratch,), np.dtype(np.uint8))

    @property
    def handle(self) -> int:
        """The stream's handle, as the driver knows it."""
        return int(self._stream.handle)

    def scratch_of(self, size: int) -> DeviceArray:
        """At least `size` bytes for what an engine keeps between its layers, the same for all that run one by one."""
        if self._scratch.nbytes < size:
            self._scratch = self.zeros((size,), np.dtype(np.uint8))
        return self._scratch

    def attach(self) -> None:
        """See `Stream.attach`."""
        with translated("the GPU"):
            self._device.set_current()

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """See `Stream.zeros`."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with translated(f"allocating {size / 2**20:,.1f} MiB on the GPU"):
            # The driver allocates nothing for nothing, but every array has an address.
            memory = self._device.allocate(max(size, 1), stream=self._stream)
            memory.fill(0, stream=self._stream)
        return DeviceArray(self, int(memory.handle), dtype, shape, memory)

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """See `Stream.pinned`."""
        with translated(f"allocating {size / 2**20:,.1f} MiB of pinned memory"):
            memory = self._pinned.allocate(max(size, 1), stream=self._stream)
        block = (ctypes.c_uint8 * size).from_address(int(memory.handle))
        block.memory = memory  # type: ignore[attr-defined]  # Lives as long as a view of it.
        return np.ctypeslib.as_array(block)

    def upload(self, target: DeviceArray, source: NDArray[Any]) -> None:
        """See `Stream.upload`."""
        self._copy(target.address, source.ctypes.data, target.nbytes)

    def read(self, target: NDArray[Any], source: DeviceArray) -> None:
        """See `Stream.read`."""
        self._copy(target.ctypes.data, source.address, source.nbytes)

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """See `Stream.copy`."""
        self._copy(target.address, source.address, source.nbytes)

    def clear(self, target: DeviceArray) -> None:
        """See `Stream.clear`."""
        if target.nbytes:
            with translated("clearing memory of the GPU"):
                Buffer.from_handle(target.address, target.nbytes).fill(0, stream=self._stream)

    def mark(self) -> Mark:
        """See `Stream.mark`."""
        return _CudaMark(self, self._device.create_event())

    def record(self, event: Event) -> None:
        """Record `event` behind everything enqueued so far."""
        with translated("the GPU's stream"):
            self._stream.record(event)

    def capture(self, enqueue: Callable[[int], None]) -> Callable[[], None]:
        """What launches, in one go, the work that `enqueue` puts into the stream whose handle it is given.

        Nothing of it is done now. What it reads and writes must stay where it is.

        Raises:
            EngineError: it cannot be captured.
        """
        with self._capture, translated("capturing a CUDA graph"):
            builder = self._stream.create_graph_builder()
            builder.begin_building("thread_local")
            try:
                enqueue(int(builder.stream.handle))
            finally:
                builder.end_building()
            graph = builder.complete()
        return lambda: graph.launch(self._stream)

    def close(self) -> None:
        """See `Stream.close`."""
        if not self._closed:
            self._closed = True
            self.attach()
            with translated("closing a stream of the GPU"):
                self._stream.sync()
                if self._owned:
                    self._stream.close()

    def _copy(self, target: int, source: int, size: int) -> None:
        if size:
            with translated("copying to or from the GPU"):
                Buffer.from_handle(target, size).copy_from(Buffer.from_handle(source, size), stream=self._stream)


class _CudaMark(Mark):
    def __init__(self, stream: CudaStream, event: Event) -> None:
        self._stream, self._event = stream, event

    def set(self) -> None:
        """See `Mark.set`."""
        self._stream.record(self._event)

    def wait(self) -> None:
        """See `Mark.wait`."""
        with translated("the GPU's work"):
            self._event.sync()
