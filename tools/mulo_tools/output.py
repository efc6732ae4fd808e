"""Files that appear whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

__all__ = ["encode_png", "replacing", "write_bytes", "write_png"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to, which becomes `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def encode_png(image: NDArray[np.uint8], text: Mapping[str, str] | None = None) -> bytes:
    """`image` [height, width, 3] as a PNG file with `text` as its textual metadata."""
    metadata, file = PngInfo(), io.BytesIO()
    for key, value in (text or {}).items():
        metadata.add_text(key, value)
    Image.fromarray(image).save(file, "PNG", pnginfo=metadata, optimize=True)
    return file.getvalue()


def write_png(path: Path, image: NDArray[np.uint8], text: Mapping[str, str] | None = None) -> None:
    """Write `image` as a PNG file; see `encode_png`."""
    write_bytes(path, encode_png(image, text))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file."""
    with replacing(path) as partial:
        partial.write_bytes(content)
