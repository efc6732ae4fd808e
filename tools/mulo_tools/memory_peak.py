"""The most memory beyond the page cache that this process and its children hold at once; Linux."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from threading import Event, Thread

__all__ = ["MemoryPeak", "watch_memory"]

_INTERVAL = 0.01
"""Seconds between two looks."""


@dataclass(slots=True)
class MemoryPeak:
    """The most bytes seen so far."""

    bytes: int = 0


@contextmanager
def watch_memory() -> Iterator[MemoryPeak]:
    """Watch the anonymous memory of this process and of those that it started with `multiprocessing`."""
    peak, stop = MemoryPeak(), Event()
    watcher = Thread(target=_watch, args=(peak, stop), daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def _watch(peak: MemoryPeak, stop: Event) -> None:
    while True:
        processes = [os.getpid(), *(child.pid for child in active_children() if child.pid)]
        peak.bytes = max(peak.bytes, sum(map(_anonymous_bytes, processes)))
        if stop.wait(_INTERVAL):
            return


def _anonymous_bytes(process: int) -> int:
    """What no file stands behind; 0 for a process that has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    match = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(match[1]) if match else 0
