"""An engine runs one graph on buffers that the caller owns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mulo_engines.errors import EngineError, ShapeError
from mulo_engines.stream import DeviceArray

__all__ = [
    "Buffer",
    "Buffers",
    "Call",
    "Engine",
    "TensorSpec",
    "address",
    "check_buffers",
    "check_inputs",
    "closed_error",
    "device_arrays",
    "host_arrays",
]

Buffer = NDArray[Any] | DeviceArray
"""Memory where the engine runs: of the host for an engine on the CPU, else of the device."""
Buffers = Mapping[str, Buffer]
"""Arrays by the name of the graph's input or output that they serve."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The declaration of one input or output.

    Attributes:
        name: its name in the graph.
        dtype: its element type.
        shape: its dimensions; an integer is fixed, a string is a symbol that has one value in a call.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"


class Call(ABC):
    """An engine together with the buffers it reads and writes, bound once and run many times."""

    @abstractmethod
    def run(self) -> None:
        """Read the input buffers, run the graph, write the output buffers; on a device, enqueue that.

        Raises:
            EngineError: the graph failed or the engine was closed; the output buffers are undefined.
            OutOfMemory: the graph's scratch memory is not there.
        """


class Engine(ABC):
    """A graph that is ready to run.

    Calls of one engine may run in several threads at once if they share no buffer that one of them writes.
    """

    def __init__(self, name: str, inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> None:
        self.name = name
        self.inputs: Mapping[str, TensorSpec] = MappingProxyType({spec.name: spec for spec in inputs})
        self.outputs: Mapping[str, TensorSpec] = MappingProxyType({spec.name: spec for spec in outputs})

    def bind(self, buffers: Buffers) -> Call:
        """Bind `buffers` to the graph's inputs and outputs of these names.

        The same array under an input's and an output's name is updated in place, which the graph must allow. The call
        keeps the arrays alive and sees what is written into them later.

        Raises:
            ShapeError: a buffer is missing, unknown, of another type or shape, not C-contiguous, or overlaps another.
        """
        check_buffers(self, buffers)
        return self._bind(buffers)

    @abstractmethod
    def run_once(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run on `inputs` and return newly allocated outputs; convenient, and far slower than a bound call.

        Raises:
            ShapeError: an input does not fit.
            EngineError: the graph failed or the engine was closed.
        """

    @abstractmethod
    def close(self) -> None:
        """Free the graph and its weights; calls that are bound fail from now on. Closing again does nothing."""

    @abstractmethod
    def _bind(self, buffers: Buffers) -> Call:
        """Bind `buffers`, which were checked."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def address(buffer: Buffer) -> int:
    """The address of the buffer's first byte, by which two views of the same memory are known."""
    return buffer.address if isinstance(buffer, DeviceArray) else int(buffer.__array_interface__["data"][0])


def host_arrays(engine: Engine, buffers: Buffers) -> dict[str, NDArray[Any]]:
    """`buffers`, all of which lie in the host's memory.

    Raises:
        ShapeError: one does not.
    """
    arrays = {name: buffer for name, buffer in buffers.items() if isinstance(buffer, np.ndarray)}
    if len(arrays) < len(buffers):
        raise _misplaced(engine, sorted(buffers.keys() - arrays.keys()), "the host's memory, where the engine runs")
    return arrays


def device_arrays(engine: Engine, buffers: Buffers) -> dict[str, DeviceArray]:
    """`buffers`, all of which were allocated by one stream.

    Raises:
        ShapeError: one was not.
    """
    arrays = {name: buffer for name, buffer in buffers.items() if isinstance(buffer, DeviceArray)}
    if len(arrays) < len(buffers) or len({id(array.stream) for array in arrays.values()}) > 1:
        raise _misplaced(engine, sorted(buffers), "the device's memory, all of one stream")
    return arrays


def closed_error(name: str) -> EngineError:
    """What every use of the engine `name` raises after it was closed."""
    return EngineError(f"{name}: the engine was closed", fix="load it again")


def check_inputs(engine: Engine, inputs: Buffers) -> dict[str, int]:
    """Check `inputs` against the engine's declarations and return the value of every symbolic dimension.

    Raises:
        ShapeError: see `Engine.run_once`.
    """
    return _check(engine.name, engine.inputs, inputs)


def check_buffers(engine: Engine, buffers: Buffers) -> None:
    """Check that `buffers` serve every input and output of `engine`.

    Raises:
        ShapeError: see `Engine.bind`.
    """
    _check(engine.name, {**engine.inputs, **engine.outputs}, buffers)
    for name in engine.outputs:
        buffer = buffers[name]
        if isinstance(buffer, np.ndarray) and not buffer.flags.writeable:
            raise ShapeError(f"{engine.name}: the buffer of output {name!r} is read-only", fix="bind a writable array")
    _check_overlaps(engine, buffers)


def _check(engine: str, specs: Mapping[str, TensorSpec], buffers: Buffers) -> dict[str, int]:
    if specs.keys() != buffers.keys():
        raise ShapeError(
            f"{engine}: the buffers are not the graph's inputs and outputs",
            found=", ".join(sorted(buffers.keys() - specs.keys())) or "nothing else",
            expected=f"also {', '.join(sorted(specs.keys() - buffers.keys())) or 'nothing else'}",
            fix="bind exactly one array to every name",
        )
    symbols: dict[str, int] = {}
    for name, spec in specs.items():
        _check_one(engine, spec, buffers[name], symbols)
    return symbols


def _check_one(engine: str, spec: TensorSpec, buffer: Buffer, symbols: dict[str, int]) -> None:
    """Check one buffer; `symbols` are the dimensions known so far, to which this buffer's are added."""
    fits = buffer.dtype == spec.dtype and buffer.ndim == len(spec.shape)
    for wanted, size in zip(spec.shape, buffer.shape, strict=False):
        fits = fits and size == (symbols.setdefault(wanted, size) if isinstance(wanted, str) else wanted)
    if not fits:
        known = ", ".join(f"{symbol} = {symbols[symbol]}" for symbol in map(str, spec.shape) if symbol in symbols)
        raise ShapeError(
            f"{engine}: the buffer of {spec.name!r} does not fit",
            found=f"{buffer.dtype} {list(buffer.shape)}",
            expected=f"{spec}{' with ' + known if known else ''}",
        )
    if isinstance(buffer, np.ndarray) and not buffer.flags.c_contiguous:
        raise ShapeError(
            f"{engine}: the buffer of {spec.name!r} is not C-contiguous",
            found=f"strides {buffer.strides} for shape {buffer.shape}",
            fix="bind an array made by numpy.zeros or numpy.ascontiguousarray",
        )


def _check_overlaps(engine: Engine, buffers: Buffers) -> None:
    """Refuse memory that the graph would write while it is also something else, unless it is one array in place."""
    extents: dict[tuple[int, int], list[str]] = {}
    for name, buffer in buffers.items():
        if buffer.nbytes:
            start = address(buffer)
            extents.setdefault((start, start + buffer.nbytes), []).append(name)
    reach, holders = 0, list[str]()
    for (start, end), names in sorted(extents.items()):
        written = [name for name in names if name in engine.outputs]
        if written and len(names) > 1 and not _in_place(names, written, buffers):
            raise _overlap(engine, names)
        if start < reach and any(name in engine.outputs for name in (*names, *holders)):
            raise _overlap(engine, [*holders, *names])
        if end > reach:
            reach, holders = end, names


def _in_place(names: list[str], written: list[str], buffers: Buffers) -> bool:
    """Whether the `names` of one memory are one input and one output that see it alike."""
    first, last = buffers[names[0]], buffers[names[-1]]
    return len(names) == 2 and len(written) == 1 and (first.dtype, first.shape) == (last.dtype, last.shape)


def _misplaced(engine: Engine, names: list[str], expected: str) -> ShapeError:
    return ShapeError(
        f"{engine.name}: the buffers of {', '.join(map(repr, names))} lie where the engine cannot use them",
        expected=expected,
    )


def _overlap(engine: Engine, names: list[str]) -> ShapeError:
    return ShapeError(
        f"{engine.name}: the buffers of {', '.join(map(repr, names))} overlap and the graph writes one of them",
        expected="separate arrays, or the same array under one input and one output",
    )
