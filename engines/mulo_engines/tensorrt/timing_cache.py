"""The builder's timings of kernels, kept in a file for the next build by the same builder on the same GPU.

The file only saves time: one that cannot be read, is of another builder, or is broken is passed over with a warning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from filelock import FileLock

__all__ = ["load_timings", "save_timings"]

_WAIT = 10.0
"""Seconds to wait for another build that reads or writes the file."""


def load_timings(config: Any, path: Path) -> str | None:
    """Give the builder the timings at `path`.

    Returns:
        A warning where the timings could not be used; None where they were, or there are none yet.
    """
    try:
        with _lock(path):
            content = path.read_bytes() if path.exists() else b""
        cache = config.create_timing_cache(content)
        if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
            return None
        reason = "they are not of this builder and GPU, or are damaged"
    except OSError as error:
        reason = str(error)
    config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
    return f"{path}: the timings of earlier builds were passed over: {reason}"


def save_timings(config: Any, path: Path) -> str | None:
    """Write the builder's timings to `path`, at once.

    Returns:
        A warning where that was not possible, else None.
    """
    try:
        with _lock(path):
            partial = path.with_name(f".{path.name}.partial")
            partial.write_bytes(memoryview(config.get_timing_cache().serialize()))
            partial.replace(path)
    except OSError as error:
        return f"{path}: the timings of this build could not be kept: {error}"
    return None


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"), timeout=_WAIT)
