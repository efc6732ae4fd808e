"""A folder of images numbered by prompt and sample: 00012-3.png is the fourth image of the thirteenth prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from mulo_engines.errors import RequestError
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

__all__ = ["numbered_images", "read_image", "read_images", "sample_lists"]

_NAME = re.compile(r"(\d+)(?:-(\d+))?\.(?:png|jpg|jpeg|webp)")
_FORM = "files named PROMPT-SAMPLE.png, both from 0 on, or PROMPT.png"


def numbered_images(folder: Path) -> dict[tuple[int, int], Path]:
    """Paths by prompt and sample, in order; other files are passed over.

    Raises:
        RequestError: there is no such folder, no image is in it, or two files are the same sample.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder}: no such folder", expected="a folder of images")
    found: dict[tuple[int, int], Path] = {}
    for path in sorted(folder.iterdir()):
        if match := _NAME.fullmatch(path.name):
            key = int(match[1]), int(match[2] or 0)
            if key in found:
                raise RequestError(
                    f"{folder}: two files are one sample", found=f"{found[key].name}, {path.name}", fix="remove one"
                )
            found[key] = path
    if not found:
        raise RequestError(f"{folder}: no image is in it", expected=_FORM)
    return dict(sorted(found.items()))


def sample_lists(folder: Path, prompts: int, samples: int) -> list[list[Path]]:
    """The first `samples` images of each of `prompts` prompts.

    Raises:
        RequestError: an image is missing, or the folder cannot be used.
    """
    found = numbered_images(folder)
    wanted = [[(prompt, sample) for sample in range(samples)] for prompt in range(prompts)]
    missing = [key for keys in wanted for key in keys if key not in found]
    if missing:
        prompt, sample = missing[0]
        raise RequestError(
            f"{folder}: {len(missing)} of {prompts * samples} images are missing",
            found=f"no {prompt:05d}-{sample}.png",
            expected=f"{samples} of each of {prompts} prompts",
        )
    return [[found[key] for key in keys] for keys in wanted]


def read_images(paths: Sequence[Path], batch: int) -> Iterator[list[NDArray[np.uint8]]]:
    """Images [height, width, 3], `batch` at a time.

    Raises:
        RequestError: a file is no image.
    """
    for start in range(0, len(paths), batch):
        yield [read_image(path) for path in paths[start : start + batch]]


def read_image(path: Path) -> NDArray[np.uint8]:
    """An image [height, width, 3].

    Raises:
        RequestError: the file is no image.
    """
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise RequestError(f"{path}: the file is no image", found=error, expected="a PNG, JPEG or WebP file") from error
