"""Calls to time, whose work is done when they return, wherever it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from mulo_engines.backend import Backend
from mulo_engines.engine import Engine
from mulo_engines.stream import DeviceArray, Stream
from numpy.typing import NDArray

__all__ = ["timed_call", "timed_copy"]


@contextmanager
def timed_call(backend: Backend, engine: Engine, buffers: Mapping[str, NDArray[Any]]) -> Iterator[Callable[[], None]]:
    """A run of `engine`, of `backend`, on `buffers`, which lie on the device where it runs there.

    On a device the first run captures what the later ones launch.
    """
    if not backend.on_device:
        yield engine.bind(buffers).run
        return
    with _stream(backend) as stream:
        call, mark = engine.bind(_on_device(stream, buffers)), stream.mark()

        def run() -> None:
            call.run()
            mark.set()
            mark.wait()

        yield run


@contextmanager
def timed_copy(backend: Backend, size: int) -> Iterator[Callable[[], None]]:
    """A copy of `size` bytes within the memory of `backend`'s device."""
    with _stream(backend) as stream:
        target, source = (stream.zeros((size,), np.dtype(np.uint8)) for _ in range(2))
        mark = stream.mark()

        def run() -> None:
            stream.copy(target, source)
            mark.set()
            mark.wait()

        yield run


@contextmanager
def _stream(backend: Backend) -> Iterator[Stream]:
    stream = backend.new_stream()
    stream.warming = True
    try:
        yield stream
    finally:
        stream.close()


def _on_device(stream: Stream, buffers: Mapping[str, NDArray[Any]]) -> dict[str, DeviceArray]:
    """`buffers` on the device; what is one array here is one there."""
    arrays = {id(buffer): stream.zeros(buffer.shape, buffer.dtype) for buffer in buffers.values()}
    for buffer in buffers.values():
        stream.upload(arrays[id(buffer)], buffer)
    mark = stream.mark()
    mark.set()
    mark.wait()
    return {name: arrays[id(buffer)] for name, buffer in buffers.items()}
