"""What the backends on an NVIDIA GPU have in common: the GPU, looked at before anything is loaded onto it."""

from __future__ import annotations

from typing import ClassVar

from mulo_engines.backend import Backend
from mulo_engines.cuda.gpu import detect_gpu
from mulo_engines.cuda.stream import CudaDevice
from mulo_engines.errors import EngineUnavailable
from mulo_engines.supported import check_gpu

__all__ = ["CudaBackend"]


class CudaBackend(Backend):
    """Engines on an NVIDIA GPU.

    Args:
        name: the backend's, for errors.
        index: number of the GPU.

    Raises:
        EngineUnavailable: there is no such GPU.
        UnsupportedVersion: mulo is not made for the GPU or its driver.
    """

    on_device: ClassVar[bool] = True

    def __init__(self, name: str, index: int) -> None:
        gpu = detect_gpu(index)
        if gpu is None:
            raise EngineUnavailable(
                f"backend {name!r} found no GPU",
                found=f"no GPU number {index}, or no driver",
                fix="install NVIDIA's driver, give another --device, or use --backend onnxruntime",
            )
        check_gpu(gpu)
        self._gpu, self._index, self._device = gpu, index, CudaDevice(index)

    def available_memory(self) -> int | None:
        """See `Backend.available_memory`."""
        gpu = detect_gpu(self._index)
        return None if gpu is None else gpu.free_bytes
