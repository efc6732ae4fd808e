"""ONNX Runtime on the CPU as a backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import EngineMismatch
from mulo_engines.layer_time import LayerTime
from mulo_engines.onnxruntime.engine import VERSION, OnnxRuntimeEngine
from mulo_engines.onnxruntime.trace import read_layer_times
from mulo_engines.supported import check_version

__all__ = ["OnnxRuntimeBackend", "refuse_bfloat16"]


class OnnxRuntimeBackend(Backend):
    """ONNX Runtime on the CPU.

    Args:
        threads: how many threads one call uses; 0 means all cores.
        spinning: whether idle threads wait actively, which is faster unless the cores are shared.

    Raises:
        EngineUnavailable: ONNX Runtime is not installed.
        UnsupportedVersion: mulo is not made for its version.
    """

    loads_files: ClassVar[bool] = True

    def __init__(self, threads: int = 0, *, spinning: bool = True) -> None:
        check_version("onnxruntime", VERSION)
        self._threads, self._spinning = threads, spinning

    def load_file(self, path: Path, name: str) -> Engine:
        """See `Backend.load_file`."""
        return OnnxRuntimeEngine.load(path, name=name, threads=self._threads, spinning=self._spinning)

    def layer_times(self, bundle: Bundle, graph: str, exercise: Callable[[Engine], None]) -> list[LayerTime]:
        """See `Backend.layer_times`."""
        with TemporaryDirectory() as folder:
            trace, path = Path(folder, "trace"), bundle.graph(graph)
            with OnnxRuntimeEngine.load(path, name=graph, threads=self._threads, trace=trace) as engine:
                exercise(engine)
                return read_layer_times(engine.end_trace())

    def _load(self, bundle: Bundle, graph: str, slots: int) -> Engine:
        refuse_bfloat16(bundle, "on the CPU, whose kernels do not compute in bfloat16")
        return self.load_file(bundle.graph(graph), graph)


def refuse_bfloat16(bundle: Bundle, where: str) -> None:
    """Refuse a bundle that computes in bfloat16.

    Raises:
        EngineMismatch: it does.
    """
    if "bfloat16" in (bundle.manifest.drafter.cache_dtype, bundle.manifest.target.cache_dtype):
        raise EngineMismatch(
            f"{bundle.path}: the bundle cannot run {where}",
            found=f"precision {bundle.manifest.precision}",
            expected="any other precision",
            fix="export it again with another --precision, or run it by TensorRT",
        )
