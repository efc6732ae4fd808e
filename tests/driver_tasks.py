"""What is done with the CUDA driver, for a process of its own, which finds it by the name of this module."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver
from cuda.core import Device
from mulo_engines.cuda.gpu import Gpu, detect_gpu


def detect() -> Gpu | None:
    return detect_gpu()


def free_bytes_beside(size: int) -> int:
    """What is free according to `detect_gpu` while `size` bytes are allocated."""
    device = Device()
    device.set_current()
    buffer = device.allocate(size, stream=device.create_stream())
    gpu = detect_gpu()
    buffer.close()
    assert gpu is not None
    return gpu.free_bytes


def copy_there_and_back(values: list[float]) -> list[float]:
    """Copy `values` into device memory and back on one stream."""
    given, found = np.array(values), np.zeros(len(values))
    device = Device()
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(given.nbytes, stream=stream)
    driver.cuMemcpyHtoDAsync(int(buffer.handle), given.ctypes.data, given.nbytes, int(stream.handle))
    driver.cuMemcpyDtoHAsync(found.ctypes.data, int(buffer.handle), found.nbytes, int(stream.handle))
    stream.sync()
    buffer.close()
    return list(found)
