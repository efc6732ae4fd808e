"""What is done with CUDA streams on the stub driver, for a process of its own."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
from mulo_engines.cuda.stream import CudaDevice, CudaStream
from mulo_engines.errors import MuloError

__all__ = ["breaks", "captures", "copies", "exhausts", "from_another_thread", "no_such_gpu", "shares_a_queue"]

INT = np.dtype(np.int64)


def _read(stream: CudaStream, array: Any) -> list[int]:
    result, mark = np.zeros(array.shape, array.dtype), stream.mark()
    stream.read(result, array)
    mark.set()
    mark.wait()
    return list(result.ravel().tolist())


def copies() -> dict[str, list[int]]:
    """What copies, parts and clearing leave."""
    stream = CudaDevice().new_stream()
    first, second = stream.zeros((2, 2), INT), stream.zeros((4,), INT)
    found = {"zeros": _read(stream, first)}
    pinned = stream.pinned(32).view(np.int64)
    pinned[:] = [1, 2, 3, 4]
    stream.upload(first, pinned)
    stream.copy(second.part((2,), offset=16), first.part((2,), offset=8))
    found |= {"uploaded": _read(stream, first), "copied": _read(stream, second)}
    stream.clear(first.part((1, 2)))
    found["cleared"] = _read(stream, first)
    nothing = stream.zeros((0, 3), INT)
    stream.upload(nothing, np.zeros((0, 3), np.int64))
    found["nothing"] = _read(stream, nothing)
    stream.close()
    stream.close()
    return found


def from_another_thread() -> list[int]:
    """What a thread reads that took over a stream."""
    stream, found = CudaDevice().new_stream(), list[int]()
    array = stream.zeros((2,), INT)
    stream.upload(array, np.array([7, 8]))

    def take_over() -> None:
        stream.attach()
        found.extend(_read(stream, array))

    thread = Thread(target=take_over)
    thread.start()
    thread.join()
    return found


def captures() -> tuple[bool, int]:
    """Whether what is captured is put into the stream's own queue, and how often it is put there by two launches."""
    stream, handles = CudaDevice().new_stream(), list[int]()
    launch = stream.capture(handles.append)
    launch()
    launch()
    return handles[0] == stream.handle, len(handles)


def shares_a_queue() -> tuple[bool, list[int]]:
    """Whether a stream beside another has its handle, and the sizes of scratch memory once the other was closed."""
    device = CudaDevice()
    device.reserve_scratch(100)
    device.reserve_scratch(50)
    first = device.new_stream()
    second = device.new_stream(beside=first)
    same = first.handle == second.handle
    second.close()
    scratch = first.scratch_of(10)
    return same, [
        scratch.nbytes,
        len(_read(first, scratch)),
        device.new_stream(shares_scratch=False).scratch_of(7).nbytes,
    ]


def exhausts() -> MuloError:
    """The error of asking for more memory than there is."""
    try:
        CudaDevice().new_stream().zeros((2**40,), INT)
    except MuloError as error:
        return error
    raise AssertionError("the memory was there")


def breaks() -> list[MuloError]:
    """The errors of a device that failed, now and later."""
    stream = CudaDevice().new_stream()
    array, errors, mark = stream.zeros((1,), INT), list[MuloError](), stream.mark()
    for action in (
        lambda: stream.upload(array, np.zeros(1, np.int64)),
        lambda: stream.upload(array, np.zeros(1, np.int64)),
        mark.wait,
    ):
        try:
            action()
        except MuloError as error:
            errors.append(error)
    return errors


def no_such_gpu() -> MuloError:
    """The error of a GPU that is not there."""
    try:
        CudaDevice(3)
    except MuloError as error:
        return error
    raise AssertionError("there is a GPU")
