"""Timed and scored images on disk, one JSON line each, so that a bench that was cut short goes on where it stopped."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mulo_runtime import METHODS, Method, Statistics, method_name, method_settings
from mulo_runtime.meter import Usage

from mulo_tools.bench.scoring import Scored
from mulo_tools.bench.timing import Timed

__all__ = ["ScoreStore", "TimeStore"]


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
        return [_scored(line) for line in _read_lines(self._path)]

    def append(self, images: Iterable[Scored]) -> None:
        """Add images."""
        _append_lines(self._path, (_score_line(image) for image in images))


class TimeStore:
    """Timed images of one bundle and number of threads, likewise."""

    def __init__(self, folder: Path | None, digest: str, threads: int) -> None:
        self._path = folder / f"times-{digest[:16]}-{threads}.jsonl" if folder else None

    def read(self) -> list[Timed]:
        """What was appended before; a last line that was cut off is dropped from the file."""
        return [_timed(line) for line in _read_lines(self._path)]

    def append(self, images: Iterable[Timed]) -> None:
        """Add images."""
        _append_lines(self._path, (_time_line(image) for image in images))


def _read_lines(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        with path.open("r+b") as file:
            file.truncate(end)
    return [json.loads(line) for line in whole[:end].splitlines()]


def _append_lines(path: Path | None, lines: Iterable[Mapping[str, Any]]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _score_line(image: Scored) -> dict[str, Any]:
    line = {
        **_method_line(image.method),
        "seed": image.seed,
        "correct": image.correct,
        "texture": [round(feature, 4) for feature in image.texture],
        "tokens": b64encode(image.tokens).decode("ascii"),
    }
    return line if image.features is None else {**line, "features": image.features}


def _scored(line: Mapping[str, Any]) -> Scored:
    features = line.get("features")
    return Scored(
        method=_method(line),
        seed=line["seed"],
        correct=line["correct"],
        texture=tuple(line["texture"]),
        tokens=b64decode(line.get("tokens", "")),
        features=None if features is None else tuple(features),
    )


def _time_line(image: Timed) -> dict[str, Any]:
    return {
        **_method_line(image.method),
        "seed": image.seed,
        "seconds": image.seconds,
        "cpu_seconds": image.cpu_seconds,
        "statistics": asdict(image.statistics),
    }


def _timed(line: Mapping[str, Any]) -> Timed:
    statistics = line["statistics"]
    usages = {name: {key: Usage(**usage) for key, usage in statistics[name].items()} for name in ("engines", "phases")}
    return Timed(
        method=_method(line),
        seed=line["seed"],
        seconds=line["seconds"],
        cpu_seconds=line["cpu_seconds"],
        statistics=Statistics(**{**statistics, **usages}),
    )


def _method_line(method: Method) -> dict[str, Any]:
    return {"method": method_name(method), "settings": method_settings(method)}


def _method(line: Mapping[str, Any]) -> Method:
    method: Method = METHODS[line["method"]](**line["settings"])
    return method
