"""Size and digest of files that a bundle tells of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

__all__ = ["WrittenFile", "hash_file", "hashing_aside"]

_CHUNK = 2**18


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file as it lies on the disk.

    Attributes:
        size: its length in bytes.
        sha256: the digest of its content, in hexadecimal.
    """

    size: int
    sha256: str


def hash_file(path: Path) -> WrittenFile:
    """The size and digest of a file that is there already."""
    return _hash(path, Event())


@contextmanager
def hashing_aside(paths: Iterable[Path]) -> Iterator[Callable[[Path], WrittenFile]]:
    """Hash files, each once, in a thread of its own while the block does something else, such as converting them.

    What is read twice at about the same time comes from the disk once.

    Yields:
        what gives, or waits for, the size and digest of one of the files; when the block ends, hashing does.
    """
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        found = {path: pool.submit(_hash, path, stop) for path in dict.fromkeys(paths)}
        try:
            yield lambda path: found[path].result()
        finally:
            stop.set()


def _hash(path: Path, stop: Event) -> WrittenFile:
    """The size and digest of a file, or of its beginning where `stop` is set meanwhile."""
    digest, size, chunk = hashlib.sha256(), 0, memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while not stop.is_set() and (count := file.readinto(chunk)):
            digest.update(chunk[:count])
            size += count
    return WrittenFile(size, digest.hexdigest())
