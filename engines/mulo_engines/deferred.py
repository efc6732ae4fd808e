"""A device that is not there: work is put off until somebody waits for it.

So host code that relies on a result too early, or overwrites memory too early, is found out on any machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_engines.engine import Buffers, Call, Engine, device_arrays
from mulo_engines.stream import DeviceArray, Mark, Stream

__all__ = ["DeferredEngine", "DeferredStream"]


class DeferredStream(Stream):
    """A stream whose device is the host; it does nothing before a mark is waited for, and then no more than it must.

    Attributes:
        waits: how often the host waited for a mark that was not reached.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self._work: deque[Callable[[], None]] = deque()
        self._enqueued = self._done = 0

    def attach(self) -> None:
        """See `Stream.attach`; any thread may do the work."""

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """See `Stream.zeros`."""
        memory = np.zeros(shape, dtype)
        return DeviceArray(self, memory.ctypes.data, memory.dtype, shape, memory.reshape(-1).view(np.uint8))

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """See `Stream.pinned`."""
        return np.zeros(size, np.uint8)

    def upload(self, target: DeviceArray, source: NDArray[Any]) -> None:
        """See `Stream.upload`."""
        self.enqueue(lambda: _copy(_bytes(target), source.reshape(-1).view(np.uint8)))

    def read(self, target: NDArray[Any], source: DeviceArray) -> None:
        """See `Stream.read`."""
        self.enqueue(lambda: _copy(target.reshape(-1).view(np.uint8), _bytes(source)))

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """See `Stream.copy`."""
        self.enqueue(lambda: _copy(_bytes(target), _bytes(source)))

    def clear(self, target: DeviceArray) -> None:
        """See `Stream.clear`."""
        self.enqueue(lambda: _bytes(target).fill(0))

    def mark(self) -> Mark:
        """See `Stream.mark`."""
        return _DeferredMark(self)

    def close(self) -> None:
        """See `Stream.close`."""
        self.reach(self._enqueued)

    def enqueue(self, work: Callable[[], None]) -> None:
        """Put `work` off."""
        self._work.append(work)
        self._enqueued += 1

    @property
    def enqueued(self) -> int:
        """Pieces of work enqueued so far."""
        return self._enqueued

    def reach(self, count: int) -> None:
        """Do the first `count` pieces of work, as far as they are not done."""
        self.waits += self._done < count
        while self._done < count:
            self._done += 1
            self._work.popleft()()


class _DeferredMark(Mark):
    def __init__(self, stream: DeferredStream) -> None:
        self._stream, self._count = stream, 0

    def set(self) -> None:
        """See `Mark.set`."""
        self._count = self._stream.enqueued

    def wait(self) -> None:
        """See `Mark.wait`."""
        self._stream.reach(self._count)


class DeferredEngine(Engine):
    """Runs a host's engine as if it were on the device of a `DeferredStream`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.name, engine.inputs.values(), engine.outputs.values())
        self._engine = engine

    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """See `Engine.run_once`."""
        return self._engine.run_once(inputs)

    def close(self) -> None:
        """See `Engine.close`."""
        self._engine.close()

    def _bind(self, buffers: Buffers) -> Call:
        arrays = device_arrays(self, buffers)
        stream = next(iter(arrays.values())).stream
        assert isinstance(stream, DeferredStream)
        call = self._engine.bind(
            {name: _bytes(array).view(array.dtype).reshape(array.shape) for name, array in arrays.items()}
        )
        return _DeferredCall(call, stream)


class _DeferredCall(Call):
    def __init__(self, call: Call, stream: DeferredStream) -> None:
        self._call, self._stream = call, stream

    def run(self) -> None:
        """See `Call.run`."""
        self._stream.enqueue(self._call.run)


def _bytes(array: DeviceArray) -> NDArray[np.uint8]:
    assert isinstance(array.memory, np.ndarray)
    start = array.address - array.memory.ctypes.data
    return array.memory[start : start + array.nbytes]


def _copy(target: NDArray[np.uint8], source: NDArray[np.uint8]) -> None:
    target[...] = source
