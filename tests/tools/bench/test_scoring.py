"""Scores of real images, in one process and in several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mulo_engines.errors import EngineError, PromptError
from mulo_runtime import AutoRegressive, Method, MuloSD, ZipAR
from mulo_tools.bench.cases import Case, cases_of
from mulo_tools.bench.scoring import Scored, Scorer, ScorerSettings, Work, split_work
from mulo_tools.bench.workers import score_all
from mulo_tools.reference.scenes import Scene, Thing

METHODS: tuple[Method, ...] = (AutoRegressive(), ZipAR(2), MuloSD(tau=0.05))
CASES = cases_of("tune", 5)
UNKNOWN = Case(Scene((Thing("mauve", "circle"),), "dark"), 0)


class _Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


def settings(bundle: Path, batch: int) -> ScorerSettings:
    return ScorerSettings(bundle, METHODS, batch=batch, threads=1)


def scores(bundle: Path, batch: int, workers: int = 1) -> list[Scored]:
    works = split_work(METHODS, CASES, set(), batch)
    images = [image for answer in score_all(settings(bundle, batch), works, workers) for image in answer]
    return sorted(images, key=lambda image: (image.seed, METHODS.index(image.method)))


def test_every_case_is_scored_by_every_method(scene_bundle: Path) -> None:
    images = scores(scene_bundle, batch=2)
    assert [(image.seed, image.method) for image in images] == [(c.seed, method) for c in CASES for method in METHODS]


def test_a_batch_scores_the_images_that_it_would_make_one_by_one(scene_bundle: Path) -> None:
    together, alone = scores(scene_bundle, batch=3), scores(scene_bundle, batch=1)
    assert [image.correct for image in together] == [image.correct for image in alone]
    np.testing.assert_allclose([i.texture for i in together], [i.texture for i in alone])


def test_several_processes_score_what_one_does(scene_bundle: Path) -> None:
    assert scores(scene_bundle, batch=2, workers=2) == scores(scene_bundle, batch=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_image_that_cannot_be_made_stops_the_bench(scene_bundle: Path, workers: int) -> None:
    works = [Work(AutoRegressive(), (UNKNOWN,))] * 2
    with pytest.raises(PromptError, match="mauve"):
        list(score_all(settings(scene_bundle, 1), works, workers))


def test_a_process_that_dies_is_noticed(scene_bundle: Path) -> None:
    works = [Work(_Deadly(), ())] * 2  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="died"):
        list(score_all(settings(scene_bundle, 1), works, 2))


def test_without_work_nothing_is_loaded(tmp_path: Path) -> None:
    assert list(score_all(settings(tmp_path / "no bundle", 1), [], 1)) == []


def test_what_is_done_is_not_done_again() -> None:
    done = {(METHODS[0], case.seed) for case in CASES[:4]}
    works = split_work(METHODS[:2], CASES, done, batch=2)
    assert [len(work.cases) for work in works if work.method == METHODS[0]] == [1]
    assert [len(work.cases) for work in works if work.method == METHODS[1]] == [2, 2, 1]


def test_a_run_that_is_cut_short_has_scored_all_methods_alike() -> None:
    works = split_work(METHODS, CASES, set(), batch=1)
    for cut in range(0, len(works), len(METHODS)):
        counts = [sum(work.method == method for work in works[:cut]) for method in METHODS]
        assert len(set(counts)) == 1


def test_a_scorer_closes_its_pipeline(scene_bundle: Path) -> None:
    with Scorer(settings(scene_bundle, 1)) as scorer:
        (image,) = scorer.score(Work(AutoRegressive(), (CASES[0],)))
    assert len(image.texture) == 64
    with pytest.raises(Exception, match="closed"):
        scorer.score(Work(AutoRegressive(), (CASES[0],)))


def test_images_get_the_features_of_the_classifier_where_they_are_asked_for(scene_bundle: Path) -> None:
    (case,) = cases_of("tune", 1)
    with Scorer(ScorerSettings(scene_bundle, (AutoRegressive(),), 1, 1, features=True)) as scorer:
        (image,) = scorer.score(Work(AutoRegressive(), (case,)))
    assert image.features is not None
    assert len(image.features) == 64
    assert len(image.tokens) == 2 * 64
