"""A stream: the memory of a lane on a device, and work that the device does there in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DeviceArray", "Mark", "Stream"]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceArray:
    """A C-contiguous array in the memory of a device; the host cannot read it.

    Attributes:
        stream: where it was allocated; only work of this stream may use it.
        address: of its first byte, on the device.
        dtype: type of its elements.
        shape: its dimensions.
        memory: what keeps the memory alive.
    """

    stream: Stream
    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    memory: object

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.size * self.dtype.itemsize

    def part(self, shape: tuple[int, ...], *, dtype: np.dtype[Any] | None = None, offset: int = 0) -> DeviceArray:
        """The array of `shape` in this one's memory, `offset` bytes behind its beginning.

        Raises:
            ValueError: it would reach beyond the end.
        """
        part = DeviceArray(self.stream, self.address + offset, dtype or self.dtype, shape, self.memory)
        if offset + part.nbytes > self.nbytes:
            raise ValueError(f"{part.nbytes} bytes at {offset} reach beyond an array of {self.nbytes} bytes")
        return part


class Mark(ABC):
    """A point in a stream, which can be set again and again."""

    @abstractmethod
    def set(self) -> None:
        """Put the mark behind everything that was enqueued so far."""

    @abstractmethod
    def wait(self) -> None:
        """Return once the device has done everything before the mark.

        Raises:
            EngineError: a piece of that work failed.
        """


class Stream(ABC):
    """Ordered work on a device. One thread at a time uses it.

    What is enqueued returns at once: host memory that it reads or writes belongs to the device until a later mark was
    waited for.

    Attributes:
        warming: whether calls that run keep what lets them run faster from the next time on, such as a CUDA graph.
        slow_runs: runs of calls, outside warm-up, that had nothing to run faster by.
    """

    def __init__(self) -> None:
        self.warming = False
        self.slow_runs = 0

    @abstractmethod
    def attach(self) -> None:
        """Let this thread use the stream; whoever takes over from another thread begins with it."""

    @abstractmethod
    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """Allocate an array that is filled with zeros before anything that is enqueued later.

        Raises:
            OutOfMemory: the device's memory does not suffice.
        """

    @abstractmethod
    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Allocate `size` bytes of host memory that the device reads and writes directly.

        Raises:
            OutOfMemory: the memory does not suffice.
        """

    @abstractmethod
    def upload(self, target: DeviceArray, source: NDArray[Any]) -> None:
        """Enqueue a copy of `source` in host memory to `target`, byte for byte; `source` is C-contiguous."""

    @abstractmethod
    def read(self, target: NDArray[Any], source: DeviceArray) -> None:
        """Enqueue a copy of `source` to `target` in host memory, byte for byte; `target` is C-contiguous."""

    @abstractmethod
    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Enqueue a copy on the device, byte for byte."""

    @abstractmethod
    def clear(self, target: DeviceArray) -> None:
        """Enqueue filling `target` with zeros."""

    @abstractmethod
    def mark(self) -> Mark:
        """A new mark, not yet set."""

    @abstractmethod
    def close(self) -> None:
        """Wait for everything enqueued and free the stream; its arrays are freed with their last use."""
