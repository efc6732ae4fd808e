"""Every error that mulo raises, in one tree.

MuloError                     exit code 1
├── EngineError               an engine could not be made or run
│   ├── EngineUnavailable     its library is not installed
│   │   └── UnsupportedVersion  a library, driver or GPU is one that mulo is not made for
│   ├── EngineMismatch        the graph does not have the declared inputs and outputs
│   ├── BuildError            a builder cannot compile a graph
│   ├── EngineStale           a compiled engine is not of this bundle, builder or machine
│   ├── ShapeError            a buffer does not fit the graph's declared shape or type
│   ├── OutOfMemory           memory that was asked for is not there
│   ├── DeviceFailed          the GPU failed; this process cannot use it any more
│   └── NonFiniteError        an engine produced NaN or infinity
├── RequestError              exit code 2: the request cannot be served as it is
│   └── PromptError           the prompt cannot be encoded
├── BundleError               exit code 3: the bundle or checkpoint is refused
│   └── CheckpointError       a checkpoint file is not what it should be
├── ParityError               exit code 4: a graph differs from its reference, or a backend from another
├── Cancelled                 the caller cancelled the request
├── DeadlineExceeded          the request's deadline passed
├── Busy                      the queue is full; try again later
└── PipelineClosed            the pipeline was closed, or a failed engine left it unusable

Each message says what happened, where, what was found, what was expected, and what to do.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BuildError",
    "BundleError",
    "Busy",
    "Cancelled",
    "CheckpointError",
    "DeadlineExceeded",
    "DeviceFailed",
    "EngineError",
    "EngineMismatch",
    "EngineStale",
    "EngineUnavailable",
    "MuloError",
    "NonFiniteError",
    "OutOfMemory",
    "ParityError",
    "PipelineClosed",
    "PromptError",
    "RequestError",
    "ShapeError",
    "UnsupportedVersion",
]


class MuloError(Exception):
    """Root of the tree.

    Args:
        what: what happened and where, in one sentence.
        found: the value that was met, when there is one.
        expected: the value that was wanted, when there is one.
        fix: what the reader should do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, found: object = None, expected: object = None, fix: str | None = None) -> None:
        self.what, self.found, self.expected, self.fix = what, found, expected, fix
        lines = [what]
        if found is not None:
            lines.append(f"  found:    {found}")
        if expected is not None:
            lines.append(f"  expected: {expected}")
        if fix is not None:
            lines.append(f"  fix:      {fix}")
        super().__init__("\n".join(lines))


class EngineError(MuloError):
    """An engine could not be made or run."""


class EngineUnavailable(EngineError):
    """What would run the engine is not there: its library is not installed, or no backend has that name."""


class UnsupportedVersion(EngineUnavailable):
    """A library, the driver or the GPU is one that mulo is not made for."""


class EngineMismatch(EngineError):
    """The graph does not have the declared inputs and outputs."""


class BuildError(EngineError):
    """A builder cannot compile a graph."""


class EngineStale(EngineError):
    """A compiled engine is not of this bundle, builder or machine, and has to be built again."""


class ShapeError(EngineError):
    """A buffer does not fit the graph's declared shape or type."""


class OutOfMemory(EngineError):
    """Memory that was asked for is not there."""


class DeviceFailed(EngineError):
    """The GPU failed in a way that no later call of this process survives: the process has to be started again."""


class NonFiniteError(EngineError):
    """An engine produced NaN or infinity, from which no image may be made."""


class RequestError(MuloError):
    """The request cannot be served as it is."""

    exit_code = 2


class PromptError(RequestError):
    """The prompt cannot be encoded."""


class BundleError(MuloError):
    """The bundle is refused."""

    exit_code = 3


class CheckpointError(BundleError):
    """A checkpoint file is not what it should be."""


class ParityError(MuloError):
    """A graph differs from its reference, or a backend from another, by more than the tolerance."""

    exit_code = 4


class Cancelled(MuloError):
    """The caller cancelled the request."""


class DeadlineExceeded(MuloError):
    """The request's deadline passed before its image was done."""


class Busy(MuloError):
    """Every lane and every place in the queue is taken."""


class PipelineClosed(MuloError):
    """The pipeline was closed, or a failed engine left it unusable."""
