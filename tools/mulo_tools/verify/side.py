"""One of the two ways to run a bundle that are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from mulo_engines.backend import Backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_engines.stream import Stream
from mulo_export.precision import PRECISIONS, Precision
from mulo_runtime import AutoRegressive
from mulo_runtime.engine_loading import needed_graphs
from numpy.typing import NDArray

__all__ = ["Side", "check_comparable", "tolerance"]

_MUST_AGREE = ("family", "ratio", "vocabulary", "condition", "pixels_per_token", "rounding")
_MODEL_MUST_AGREE = ("rows", "cols", "layers", "heads", "head_dim", "dim")


@dataclass(frozen=True, slots=True)
class Side:
    """A bundle whose graphs are loaded by one backend.

    Attributes:
        name: what tables call it.
        bundle: the bundle, opened.
        engines: every graph that the loop needs, by name.
        new_stream: makes a lane's stream, where engines run on a device.
    """

    name: str
    bundle: Bundle
    engines: Mapping[str, Engine]
    new_stream: Callable[[], Stream] | None = None

    @classmethod
    def load(cls, name: str, bundle: Bundle, backend: Backend) -> Self:
        """Load the graphs of `bundle` by `backend`.

        Raises:
            EngineError: one cannot be loaded.
        """
        graphs = needed_graphs(backend, bundle.manifest, [AutoRegressive()])
        with ExitStack() as opened:
            engines = {graph: opened.enter_context(backend.load(bundle, graph)) for graph in graphs}
            opened.pop_all()
        return cls(name, bundle, engines, backend.new_stream if backend.on_device else None)

    def run(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run `graph` on host arrays, floats in whatever type; floats come back as float64 or as they are."""
        engine, bits = self.engines[graph], self._is_bfloat16
        given = {name: _narrowed(array, engine.inputs[name].dtype, bits=bits) for name, array in inputs.items()}
        outputs = engine.run_once(given)
        return {name: _widened(array, bits=bits) for name, array in outputs.items()}

    def close(self) -> None:
        """Free the engines."""
        for engine in self.engines.values():
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _is_bfloat16(self) -> bool:
        return self.bundle.manifest.target.cache_dtype == "bfloat16"


def tolerance(a: Side, b: Side) -> float:
    """The largest relative error between two sides: that of the wider gap between a precision and the truth."""
    return max(PRECISIONS[Precision(side.bundle.manifest.precision)].tolerance for side in (a, b))


def check_comparable(a: Manifest, b: Manifest) -> None:
    """Refuse two bundles that could not give the same tokens.

    Raises:
        RequestError: they differ in more than their precision; all differences are listed.
    """
    faults = [(name, getattr(a, name), getattr(b, name)) for name in _MUST_AGREE]
    for role in ("drafter", "target"):
        low, high = getattr(a, role), getattr(b, role)
        faults += [(f"{role}.{name}", getattr(low, name), getattr(high, name)) for name in _MODEL_MUST_AGREE]
    differing = [(name, first, second) for name, first, second in faults if first != second]
    if differing:
        raise RequestError(
            "the two bundles are of different models",
            found="; ".join(f"{name} {second}" for name, _, second in differing),
            expected="; ".join(f"{name} {first}" for name, first, _ in differing),
            fix="give two exports of the same checkpoints",
        )


def _narrowed(array: NDArray[Any], dtype: np.dtype[Any], *, bits: bool) -> NDArray[Any]:
    """`array` in the type of an input; where the bundle is of bfloat16, 16-bit integers hold its bits."""
    if array.dtype.kind == "f" and dtype == np.uint16 and bits:
        return np.ascontiguousarray((array.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16))
    return np.array(array, dtype, order="C")


def _widened(array: NDArray[Any], *, bits: bool) -> NDArray[Any]:
    if array.dtype == np.uint16 and bits:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if array.dtype.kind == "f" else array
