"""What a builder's library says while it works, and what that means.

The library reports a failure by its log and returns nothing; the log is all there is to tell causes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mulo_engines.cuda.failures import failure
from mulo_engines.errors import BuildError, EngineError, OutOfMemory

__all__ = ["build_failure", "collecting_logger", "lacks_fused_attention", "run_failure"]

_FUSING_FAILED = "Myelin"
"""What the part of the builder is called that makes one kernel of an attention."""
_NO_MEMORY = ("out of memory", "outofmemory", "bad_alloc", "memory allocation")
_NO_KERNEL = "could not find any implementation"
_SHOWN = 3


def collecting_logger(library: Any, errors: list[str]) -> Any:
    """A logger that appends what the library reports as an error to `errors` and drops the rest.

    A process has one: the library keeps the first that it is given.
    """

    class Collector(library.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            library.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity in (library.ILogger.Severity.ERROR, library.ILogger.Severity.INTERNAL_ERROR):
                errors.append(message)

    return Collector()


def lacks_fused_attention(errors: Sequence[str]) -> bool:
    """Whether a build failed where attentions become one kernel each, for want of such a kernel or by a fault."""
    return any(_FUSING_FAILED in error for error in errors)


def build_failure(graph: str, errors: Sequence[str]) -> EngineError:
    """What the failed build of `graph` is to be raised as."""
    found = _last(errors)
    text = " ".join(errors).lower()
    if _NO_KERNEL in text:
        return BuildError(
            f"{graph}: the builder has no kernel for a part of the graph on this GPU",
            found=found,
            fix="free GPU memory, for kernels that need more of it are passed over; else export with another precision",
        )
    if any(known in text for known in _NO_MEMORY):
        return OutOfMemory(
            f"{graph}: the memory ran out while the graph was built",
            found=found,
            fix="free memory, or build for fewer images or queries",
        )
    return BuildError(
        f"{graph}: the builder refuses the graph",
        found=found,
        fix="report this with the versions of mulo and of the builder",
    )


def run_failure(what: str, errors: Sequence[str]) -> EngineError:
    """What a plan that cannot be loaded or run is to be raised as."""
    found = _last(errors)
    named = failure(what, found)
    if type(named) is EngineError and any(known in found.lower() for known in _NO_MEMORY):
        return OutOfMemory(what, found=found, fix="free memory of the GPU, use fewer lanes, or a smaller batch")
    return named


def _last(errors: Sequence[str]) -> str:
    return "\n            ".join(errors[-_SHOWN:]) or "nothing in the library's log"
