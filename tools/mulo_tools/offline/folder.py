"""The folder that a set of images fills: what is done already, and one writer at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from mulo_engines.bundle import Bundle
from mulo_engines.errors import RequestError
from PIL import Image, UnidentifiedImageError

from mulo_tools.offline.items import Item, item_condition
from mulo_tools.offline.painter import PainterSettings
from mulo_tools.record import describe_request

__all__ = ["missing_items", "writing"]


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the one who writes into `folder`, which is made where there is none; remove what a killed writer left half.

    Raises:
        RequestError: another process is writing there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            for partial in folder.glob(".*.partial"):
                partial.unlink()
            yield
    except Timeout as error:
        raise RequestError(
            f"{folder}: another process is writing this", fix="wait for it, or give another --out"
        ) from error


def missing_items(folder: Path, items: Sequence[Item], bundle: Bundle, settings: PainterSettings) -> list[Item]:
    """The items that `folder` has no image of yet.

    Raises:
        RequestError: a file is there under an item's name that is not the item's.
    """
    missing = []
    for item in items:
        if (folder / item.name).exists():
            _check(folder / item.name, item, bundle, settings)
        else:
            missing.append(item)
    return missing


def _check(path: Path, item: Item, bundle: Bundle, settings: PainterSettings) -> None:
    condition, threads = item_condition(item.line, bundle.manifest), settings.backend["threads"]
    expected = describe_request(bundle, condition, item.seed, settings.method, settings.sampling, threads)
    found = _description(path)
    names = sorted(name for name in {**found, **expected} if found.get(name) != expected.get(name))
    if names:
        raise RequestError(
            f"{path}: this is another image than the one asked for",
            found=", ".join(f"{name} {found.get(name)!r}" for name in names),
            expected=", ".join(f"{name} {expected.get(name)!r}" for name in names),
            fix="give another --out, or the options that the set was begun with",
        )


def _description(path: Path) -> dict[str, object]:
    """What the image at `path` says of itself; nothing where it is none of mulo's."""
    try:
        with Image.open(path) as image:
            description = json.loads(image.info["mulo"])
    except (UnidentifiedImageError, KeyError, ValueError, TypeError):
        return {}
    return description if isinstance(description, dict) else {}
