"""Decodes cases in batches and judges the images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mulo_runtime import Method, Pipeline

from mulo_tools.bench.cases import Case
from mulo_tools.bench.classifier_features import classifier_features
from mulo_tools.bench.texture import texture_features
from mulo_tools.reference.judge import judge

__all__ = ["Scored", "Scorer", "ScorerSettings", "Work", "split_work"]


@dataclass(frozen=True, slots=True)
class Work:
    """Cases to be decoded together by one method."""

    method: Method
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """One judged image.

    Attributes:
        method: how it was decoded.
        seed: the case's seed.
        correct: whether it shows exactly the scene.
        texture: its texture features; 64 numbers.
        tokens: its tokens in raster order, two bytes each; empty where an earlier version kept none.
        features: the classifier's features, 64 numbers; None where they were not asked for.
    """

    method: Method
    seed: int
    correct: bool
    texture: tuple[float, ...]
    tokens: bytes = b""
    features: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScorerSettings:
    """What a scorer is opened with.

    Attributes:
        bundle: the bundle's folder, verified before.
        methods: every method that will be asked for.
        batch: images decoded together.
        threads: threads of one engine call.
        features: whether images get the classifier's features.
    """

    bundle: Path
    methods: tuple[Method, ...]
    batch: int
    threads: int
    features: bool = False


class Scorer:
    """A pipeline that decodes batches, and the judge; close it after use."""

    def __init__(self, settings: ScorerSettings) -> None:
        self._describe = classifier_features() if settings.features else None
        self._pipeline = Pipeline.open(
            settings.bundle,
            threads=settings.threads,
            spinning=False,
            verify=False,
            images=settings.batch,
            methods=settings.methods,
        )

    def score(self, work: Work) -> list[Scored]:
        """Decode and judge the cases of `work`, as many as the batch holds.

        Raises:
            MuloError: an image could not be made.
        """
        results = self._pipeline.generate_batch([case.request(work.method) for case in work.cases])
        return [
            Scored(
                method=work.method,
                seed=case.seed,
                correct=judge(result.image, case.scene).correct,
                texture=tuple(texture_features(result.image).tolist()),
                tokens=result.tokens.astype("<u2").tobytes(),
                features=self._describe and tuple(self._describe(result.image).tolist()),
            )
            for case, result in zip(work.cases, results, strict=True)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipeline.close()


def split_work(
    methods: Sequence[Method], cases: Sequence[Case], done: set[tuple[Method, int]], batch: int
) -> list[Work]:
    """What is left to do, all methods in turn batch by batch, so that they are level when a run is cut short."""
    columns = [
        _batches(method, [case for case in cases if (method, case.seed) not in done], batch) for method in methods
    ]
    longest = max(map(len, columns), default=0)
    return [column[index] for index in range(longest) for column in columns if index < len(column)]


def _batches(method: Method, cases: Sequence[Case], batch: int) -> list[Work]:
    return [Work(method, tuple(cases[start : start + batch])) for start in range(0, len(cases), batch)]
