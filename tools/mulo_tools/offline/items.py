"""From a file of prompts to the images that are wanted of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.bundle import Bundle
from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from mulo_runtime import ClassId, Condition, Prompt
from mulo_runtime.conditions import ConditionEncoder

from mulo_tools.condition_options import read_condition

__all__ = ["Item", "item_condition", "read_items"]

_SEEDS = 2**64


@dataclass(frozen=True, slots=True)
class Item:
    """One image of a set.

    Attributes:
        name: of its file: the line of its prompt, from 1, and its number among the images of that line, from 0.
        line: what it shows; see `item_condition`.
        seed: its seed.
    """

    name: str
    line: str
    seed: int


def read_items(prompts: Path, bundle: Bundle, images: int, seed: int) -> list[Item]:
    """`images` images of every line of `prompts`; image j, from 0, has the seed `seed` + j, whatever the line.

    Blank lines are passed over.

    Raises:
        RequestError: the file cannot be read or has no prompt, the bundle does not take a line, or a seed is too large.
    """
    if seed < 0 or seed + images > _SEEDS:
        raise RequestError("a seed is out of range", found=f"{seed} to {seed + images - 1}", expected="0 to 2**64 - 1")
    encoder, manifest = ConditionEncoder(bundle, {}), bundle.manifest
    items = []
    for number, text in _lines(prompts):
        line = str(Path(text).absolute()) if _reads_files(manifest) else text
        try:
            encoder.check(item_condition(line, manifest))
        except RequestError as error:
            what = f"{prompts}, line {number}: {error.what}"
            raise type(error)(what, found=error.found, expected=error.expected, fix=error.fix) from error
        items += [Item(f"{number:06}-{index}.png", line, seed + index) for index in range(images)]
    if not items:
        raise RequestError(f"{prompts}: no prompt", expected="a prompt on every line")
    return items


def item_condition(line: str, manifest: Manifest) -> Condition:
    """What `line` means to the bundle: the number of a class, a prompt, or the path of a file for `--condition`.

    Raises:
        RequestError: it means nothing.
    """
    if manifest.condition.kind == "class":
        if not (line.isascii() and line.isdigit()):
            raise RequestError("this is no class", found=repr(line), expected="the number of a class")
        return ClassId(int(line))
    return read_condition(Path(line)) if _reads_files(manifest) else Prompt(line)


def _reads_files(manifest: Manifest) -> bool:
    return manifest.condition.kind != "class" and manifest.prompt is None


def _lines(prompts: Path) -> Iterator[tuple[int, str]]:
    try:
        lines = prompts.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"{prompts}: cannot be read", found=error, expected="a UTF-8 file with a prompt on every line"
        ) from error
    return ((number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip())
