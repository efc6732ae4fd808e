"""NVIDIA's two builders behind one interface; the only module that imports `tensorrt` or `tensorrt_rtx`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mulo_engines.errors import EngineUnavailable
from mulo_engines.supported import check_version

__all__ = ["BUILDERS", "Binding", "load_binding"]

BUILDERS = ("tensorrt", "tensorrt-rtx")
"""Backends that compile; their Python interfaces are nearly the same."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A builder's library.

    Attributes:
        backend: one of `BUILDERS`.
        library: the Python module, whose names are those of TensorRT 11 in both.
        version: the library's version.
        caches_timings: whether the builder times kernels on the GPU, and keeps the times for the next build.
    """

    backend: str
    library: Any
    version: str
    caches_timings: bool


def load_binding(backend: str) -> Binding:
    """Import the library of `backend`.

    Raises:
        EngineUnavailable: there is no such builder, or its library is not installed or cannot be loaded.
        UnsupportedVersion: mulo is not made for its version.
    """
    if backend not in BUILDERS:
        raise EngineUnavailable("there is no such builder", found=backend, expected=", ".join(BUILDERS))
    try:
        library = import_module("tensorrt") if backend == "tensorrt" else import_module("tensorrt_rtx")
    except (ImportError, OSError) as error:
        raise EngineUnavailable(
            f"the library of backend {backend!r} cannot be imported", found=error, fix=f"pip install 'mulo[{backend}]'"
        ) from error
    check_version(backend, library.__version__)
    return Binding(backend, library, library.__version__, caches_timings=backend == "tensorrt")
