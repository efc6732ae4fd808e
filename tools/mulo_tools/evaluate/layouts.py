"""The folders that image benchmarks read, each as its own code asks for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.errors import RequestError
from mulo_export.publish import publication
from PIL import Image

from mulo_tools.evaluate.numbered import read_image, sample_lists

__all__ = ["LAYOUTS", "Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """A benchmark's folder.

    Attributes:
        samples: images of every prompt.
        prompts: what its prompts come as.
        write: writes images and prompts to a folder that must not exist: (images, prompts, folder).
    """

    samples: int
    prompts: str
    write: Callable[[Path, Path, Path], None]


def write_geneval(images: Path, prompts: Path, out: Path) -> None:
    """00000/metadata.jsonl, 00000/samples/0000.png ...: four images a prompt (README of djghosh13/geneval).

    Raises:
        RequestError: a line is no metadata, an image is missing, or `out` exists.
    """
    lines = [line for line in _read(prompts).splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        _check_metadata(prompts, number, line)
    with _publication(out) as folder:
        for index, (line, paths) in enumerate(zip(lines, sample_lists(images, len(lines), 4), strict=True)):
            samples = folder / f"{index:05d}" / "samples"
            samples.mkdir(parents=True)
            (samples.parent / "metadata.jsonl").write_text(line + "\n", encoding="utf-8")
            for sample, path in enumerate(paths):
                _save(path, samples / f"{sample:04d}.png")


def write_dpg_bench(images: Path, prompts: Path, out: Path) -> None:
    """ITEM.png: four images of a prompt in a square, named like its text file (dpg_bench of TencentQQGYLab/ELLA).

    Raises:
        RequestError: there are no prompts, an image is missing or of another size, or `out` exists.
    """
    items = sorted(prompts.glob("*.txt"))
    if not items:
        raise RequestError(f"{prompts}: no prompts are in it", expected="a folder of ITEM.txt, one prompt each")
    with _publication(out) as folder:
        for item, paths in zip(items, sample_lists(images, len(items), 4), strict=True):
            _squared(paths).save(folder / f"{item.stem}.png")


def write_hpsv2(images: Path, prompts: Path, out: Path) -> None:
    """STYLE/00000.jpg: one image a prompt of every style's list (README of tgxs002/HPSv2), styles in order of name.

    Raises:
        RequestError: a file is no list of prompts, an image is missing, or `out` exists.
    """
    styles = _styles(prompts)
    paths = [path for (path,) in sample_lists(images, sum(styles.values()), 1)]
    with _publication(out) as folder:
        for style, count in styles.items():
            (folder / style).mkdir()
            for index in range(count):
                _save(paths.pop(0), folder / style / f"{index:05d}.jpg")


LAYOUTS: Mapping[str, Layout] = {
    "geneval": Layout(4, "evaluation_metadata.jsonl", write_geneval),
    "dpg-bench": Layout(4, "a folder of ITEM.txt", write_dpg_bench),
    "hpsv2": Layout(1, "a folder of STYLE.json, each a list of prompts", write_hpsv2),
}
"""The benchmarks by name."""

_QUALITY = 95


@contextmanager
def _publication(out: Path) -> Iterator[Path]:
    """A folder that appears whole or not at all."""
    if out.exists():
        raise RequestError(f"{out}: exists already", fix="remove it, or give another --out")
    with publication(out) as folder:
        yield folder


def _check_metadata(path: Path, number: int, line: str) -> None:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise RequestError(f"{path}, line {number}: no JSON", found=error, expected="GenEval's metadata") from error
    if not isinstance(fields, dict) or not {"tag", "prompt"} <= fields.keys():
        raise RequestError(
            f"{path}, line {number}: no metadata", found=line[:80], expected="an object with tag, prompt"
        )


def _styles(prompts: Path) -> dict[str, int]:
    """How many prompts every style has."""
    counts: dict[str, int] = {}
    for path in sorted(prompts.glob("*.json")):
        try:
            listed = json.loads(_read(path))
        except json.JSONDecodeError as error:
            raise RequestError(f"{path}: no JSON", found=error, expected="a list of prompts") from error
        if not isinstance(listed, list) or not all(isinstance(prompt, str) for prompt in listed):
            raise RequestError(f"{path}: no list of prompts", found=str(listed)[:80], expected="a list of strings")
        counts[path.stem] = len(listed)
    if not counts:
        raise RequestError(f"{prompts}: no prompts are in it", expected="STYLE.json files")
    return counts


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read", found=error, expected="the benchmark's prompts") from error


def _save(source: Path, destination: Path) -> None:
    """Copy an image, or convert it where the ending differs."""
    if source.suffix == destination.suffix:
        shutil.copyfile(source, destination)
    else:
        Image.fromarray(read_image(source)).save(destination, quality=_QUALITY)


def _squared(paths: Sequence[Path]) -> Image.Image:
    """Four images as two rows of two."""
    images = [read_image(path) for path in paths]
    height, width = images[0].shape[:2]
    square = Image.new("RGB", (2 * width, 2 * height))
    for index, (path, image) in enumerate(zip(paths, images, strict=True)):
        if image.shape[:2] != (height, width):
            raise RequestError(f"{path}: the image has another size", found=image.shape[:2], expected=(height, width))
        square.paste(Image.fromarray(image), (index % 2 * width, index // 2 * height))
    return square
