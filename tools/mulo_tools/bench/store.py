"""Scored images on disk, one JSON line each, so that a bench that was cut short goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mulo_runtime import METHODS, Method, method_name, method_settings

from mulo_tools.bench.scoring import Scored

__all__ = ["ScoreStore"]


class ScoreStore:
    """Scored images of one bundle; lines are only ever appended.

    Args:
        folder: where the file is; None keeps nothing.
        digest: the bundle's digest, which names the file.
    """

    def __init__(self, folder: Path | None, digest: str) -> None:
        self._path = folder / f"scores-{digest[:16]}.jsonl" if folder else None

    def read(self) -> list[Scored]:
        """What was appended before; a last line that was cut off is dropped from the file."""
        if self._path is None or not self._path.exists():
            return []
        whole = self._path.read_bytes()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            with self._path.open("r+b") as file:
                file.truncate(end)
        return [_scored(json.loads(line)) for line in whole[:end].splitlines()]

    def append(self, images: Iterable[Scored]) -> None:
        """Add images."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(_line(image)) + "\n" for image in images]
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))


def _line(image: Scored) -> dict[str, Any]:
    return {
        "method": method_name(image.method),
        "settings": method_settings(image.method),
        "seed": image.seed,
        "correct": image.correct,
        "texture": [round(feature, 4) for feature in image.texture],
    }


def _scored(line: dict[str, Any]) -> Scored:
    method: Method = METHODS[line["method"]](**line["settings"])
    return Scored(method, line["seed"], line["correct"], tuple(line["texture"]))
