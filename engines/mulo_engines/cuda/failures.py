"""What the CUDA driver says when something fails, and what it means for whoever goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mulo_engines.errors import DeviceFailed, EngineError, OutOfMemory

__all__ = ["failure", "translated"]

_NO_MEMORY = ("OUT_OF_MEMORY", "LAUNCH_OUT_OF_RESOURCES")
_FOR_GOOD = (
    "ECC_UNCORRECTABLE",
    "NVLINK_UNCORRECTABLE",
    "CONTAINED",
    "ILLEGAL_ADDRESS",
    "LAUNCH_TIMEOUT",
    "CONTEXT_IS_DESTROYED",
    "ASSERT",
    "HARDWARE_STACK_ERROR",
    "ILLEGAL_INSTRUCTION",
    "MISALIGNED_ADDRESS",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "LAUNCH_FAILED",
    "EXTERNAL_DEVICE",
    "UNKNOWN",
)
"""Errors of the driver API after which every further call of the process fails likewise."""


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise what the driver's library raises inside as `failure` has it."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:  # Its class is no public name of the library.
        raise failure(what, str(error)) from error


def failure(what: str, message: str) -> EngineError:
    """The error that a driver's `message`, which begins with the name of its code, is to be raised as."""
    named = re.search(r"(?:CUDA_ERROR_|cudaError)(\w+)", message)
    code = named.group(1) if named else ""
    if code in _NO_MEMORY:
        return OutOfMemory(what, found=message, fix="free memory of the GPU, use fewer lanes, or a smaller batch")
    if code in _FOR_GOOD:
        return DeviceFailed(what, found=message, fix="start the process again; if it recurs, look at `dmesg` for Xid")
    return EngineError(what, found=message)
