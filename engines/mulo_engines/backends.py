"""The backends by name; each imports its library when it is opened."""

from __future__ import annotations

from pathlib import Path

from mulo_engines.backend import Backend
from mulo_engines.errors import EngineUnavailable
from mulo_engines.supported import check_python

__all__ = ["BACKEND_NAMES", "open_backend"]

BACKEND_NAMES = ("onnxruntime", "onnxruntime-cuda", "tensorrt", "tensorrt-rtx")
"""The first runs on the host, the others on a GPU."""


def open_backend(
    name: str, *, threads: int = 0, spinning: bool = True, device: int = 0, engines: Path | None = None
) -> Backend:
    """The backend called `name`.

    Args:
        name: one of `BACKEND_NAMES`.
        threads: of one call on the CPU; see `OnnxRuntimeBackend`.
        spinning: whether they wait actively; likewise.
        device: number of the GPU.
        engines: where compiled engines lie; None looks inside the bundle.

    Raises:
        EngineUnavailable: there is no such backend, its library is not installed, or there is no such GPU.
        UnsupportedVersion: mulo is not made for the version of its library, or of Python.
    """
    check_python()
    if name not in BACKEND_NAMES:
        raise EngineUnavailable("there is no such backend", found=name, expected=", ".join(BACKEND_NAMES))
    if name == "onnxruntime":
        from mulo_engines.onnxruntime.backend import OnnxRuntimeBackend

        return OnnxRuntimeBackend(threads, spinning=spinning)
    if name == "onnxruntime-cuda":
        from mulo_engines.onnxruntime.cuda_backend import OnnxRuntimeCudaBackend

        return OnnxRuntimeCudaBackend(device)
    from mulo_engines.tensorrt.backend import TensorRtBackend

    return TensorRtBackend(name, device=device, engines=engines)
