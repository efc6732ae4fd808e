"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

__all__ = ["replacing", "write_png"]


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


def write_png(path: Path, image: NDArray[np.uint8], text: Mapping[str, str] | None = None) -> None:
    """Write `image` [height, width, 3] as a PNG file with `text` as its textual metadata."""
    metadata = PngInfo()
    for key, value in (text or {}).items():
        metadata.add_text(key, value)
    with replacing(path) as partial:
        Image.fromarray(image).save(partial, "PNG", pnginfo=metadata, optimize=True)
