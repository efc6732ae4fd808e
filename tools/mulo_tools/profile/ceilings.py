"""What this machine can do at most, measured by engines of the same backend: a copy and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mulo_engines.backend import Backend
from mulo_engines.cost import Cost
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.graphs.builder import GraphBuilder
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mulo_tools.profile.latency import Budget, measure
from mulo_tools.timed_calls import timed_call, timed_copy

__all__ = ["Ceilings", "MatrixSize", "measure_ceilings"]

_BUDGET = Budget(runs=10, seconds=2.0)


@dataclass(frozen=True, slots=True)
class MatrixSize:
    """A matrix of `width` x `width` numbers, which no cache holds, and how many rows are multiplied with it at once."""

    width: int = 6144
    rows: int = 256


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Rates that nothing on this machine exceeds, but for what stays in the processor's caches.

    Attributes:
        copy_bytes: bytes a second of a copy, read and written alike.
        read_bytes: bytes a second of the matrix that one row is multiplied with, which a step of decoding consists of.
        flop: FLOP a second of the product of two matrices; None where it could not be measured.
    """

    copy_bytes: float
    read_bytes: float
    flop: float | None

    @property
    def bytes(self) -> float:
        """Bytes a second at most."""
        return max(self.copy_bytes, self.read_bytes)

    def limit(self, cost: Cost) -> float:
        """The least seconds that a pass of this cost takes."""
        return cost.seconds(self.bytes, math.inf if self.flop is None else self.flop)


def measure_ceilings(backend: Backend, dtype: str, size: MatrixSize) -> Ceilings:
    """Measure the machine by the best of a few runs.

    A device whose backend runs nothing but compiled bundles is measured by a copy alone.

    Args:
        backend: runs the graphs, as it runs those of the bundle.
        dtype: of the matrices, "float32" or "float16".
        size: of the matrices.

    Raises:
        EngineUnavailable: the backend loads only what was compiled for a bundle, and its memory is the host's.
    """
    if backend.on_device and not backend.loads_files:
        return _copied_only(backend, size)
    width, itemsize = size.width, np.dtype(dtype).itemsize
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        _write_copy(folder / "copy.onnx", dtype)
        _write_product(folder / "product.onnx", dtype, width)
        matrix, row, rows = (np.ones((count, width), dtype) for count in (width, 1, size.rows))
        copied = _best(backend, folder / "copy.onnx", {"x": matrix, "y": np.empty_like(matrix)})
        read = _best(backend, folder / "product.onnx", {"x": row, "y": np.empty_like(row)})
        multiplied = _best(backend, folder / "product.onnx", {"x": rows, "y": np.empty_like(rows)})
    return Ceilings(
        copy_bytes=2 * width**2 * itemsize / copied,
        read_bytes=width**2 * itemsize / read,
        flop=2 * size.rows * width**2 / multiplied,
    )


def _copied_only(backend: Backend, size: MatrixSize) -> Ceilings:
    moved = size.width**2 * np.dtype(np.float32).itemsize
    with timed_copy(backend, moved) as copy:
        rate = 2 * moved / min(measure(copy, _BUDGET).warm)
    return Ceilings(copy_bytes=rate, read_bytes=rate, flop=None)


def _best(backend: Backend, path: Path, buffers: Mapping[str, NDArray[Any]]) -> float:
    """Seconds of the fastest run."""
    with backend.load_file(path, path.stem) as engine, timed_call(backend, engine, buffers) as call:
        latency = measure(call, _BUDGET)
    return min(latency.warm)


def _write_copy(path: Path, dtype: str) -> None:
    """A graph y = -x: the change of sign costs nothing and keeps every thread at work, which a bare copy does not."""
    graph = GraphBuilder("copy")
    copied = graph.op("Neg", graph.input("x", dtype, ["N", "D"]))
    graph.output("y", copied, dtype, ["N", "D"])
    graph.save(path)


def _write_product(path: Path, dtype: str, width: int) -> None:
    """A graph y = x W^T, declared as the linear layers of a transformer are."""
    weights = path.with_suffix(".safetensors")
    save_file({"w": np.full((width, width), 1 / width, dtype)}, weights)
    graph = GraphBuilder("product")
    weight = graph.weight(read_tensor_file(weights).tensors["w"], weights.name)
    product = graph.op("Gemm", graph.input("x", dtype, ["N", width]), weight, transB=1)
    graph.output("y", product, dtype, ["N", width])
    graph.save(path)
