"""ONNX Runtime's CUDA provider as a backend."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mulo_engines.bundle import Bundle
from mulo_engines.cuda.backend import CudaBackend
from mulo_engines.engine import Engine
from mulo_engines.onnxruntime.backend import refuse_bfloat16
from mulo_engines.onnxruntime.cuda_engine import OnnxRuntimeCudaEngine, require_provider
from mulo_engines.onnxruntime.engine import VERSION
from mulo_engines.stream import Stream
from mulo_engines.supported import check_version

__all__ = ["OnnxRuntimeCudaBackend"]


class OnnxRuntimeCudaBackend(CudaBackend):
    """ONNX Runtime on an NVIDIA GPU.

    A session works in one queue, so that the streams of all lanes share one: lanes take turns pass by pass.

    Args:
        device: number of the GPU.

    Raises:
        EngineUnavailable: ONNX Runtime is not installed or cannot load its CUDA provider, or there is no such GPU.
        UnsupportedVersion: mulo is not made for ONNX Runtime, the GPU or its driver.
    """

    loads_files: ClassVar[bool] = True

    def __init__(self, device: int = 0) -> None:
        require_provider()
        check_version("onnxruntime", VERSION)
        super().__init__("onnxruntime-cuda", device)
        self._queue = self._device.new_stream()

    def new_stream(self) -> Stream:
        """See `Backend.new_stream`."""
        return self._device.new_stream(beside=self._queue)

    def load_file(self, path: Path, name: str) -> Engine:
        """See `Backend.load_file`."""
        return OnnxRuntimeCudaEngine.load(path, name=name, device=self._index, stream=self._queue.handle)

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        refuse_bfloat16(bundle, "by ONNX Runtime, whose Python interface has no bfloat16 arrays")
        return self.load_file(bundle.graph(graph), graph)
