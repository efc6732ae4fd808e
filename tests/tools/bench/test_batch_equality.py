"""Images of a batch beside the same images decoded alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import Result as Outcome
from mulo_runtime import AutoRegressive, MuloSD, Pipeline, Request, Result
from mulo_tools.bench.batch_equality import compare_batches
from mulo_tools.bench.cases import cases_of

RunMulo = Callable[..., Outcome]

CASES = cases_of("tune", 4)


class ChangesToken:
    """A pipeline whose batches have another token at `place` of their first image."""

    def __init__(self, pipeline: Pipeline, place: int) -> None:
        self._pipeline, self._place = pipeline, place

    def generate_batch(self, requests: Sequence[Request]) -> list[Result]:
        results = [self._pipeline.generate(request) for request in requests]
        tokens = results[0].tokens.copy()
        tokens.flat[self._place :] += 1
        return [replace(results[0], tokens=tokens), *results[1:]]


@pytest.mark.parametrize("method", [AutoRegressive(), MuloSD(pool_k=4)], ids=str)
def test_equal_images_count_every_draw(scene_bundle: Path, method: Any) -> None:
    with Pipeline.open(scene_bundle, threads=1) as alone, Pipeline.open(scene_bundle, threads=1, images=2) as together:
        equality = compare_batches(alone, together, [CASES[:2], CASES[2:]], method)
    assert (equality.images, equality.different, equality.draws, equality.rate) == (4, 0, 4 * 64, 0)
    assert min(equality.seconds_alone, equality.seconds_together) > 0


@pytest.mark.parametrize("place", [0, 5, 63])
def test_draws_after_the_first_difference_do_not_count(scene_bundle: Path, place: int) -> None:
    with Pipeline.open(scene_bundle, threads=1) as alone:
        together = cast("Pipeline", ChangesToken(alone, place))
        equality = compare_batches(alone, together, [CASES[:2]], AutoRegressive())
    assert (equality.different, equality.draws) == (1, place + 1 + 64)
    assert equality.rate == pytest.approx(1 / (place + 65))


def test_the_command_shows_every_method(mulo: RunMulo, scene_bundle: Path) -> None:
    result = mulo(
        "bench-batch", scene_bundle, "--images", 2, "--batches", 1, "--threads", 1, "--method", "zipar window=2"
    )
    assert result.exit_code == 0, result.output
    assert "batches of 2" in result.stdout
    assert "zipar window=2" in result.stdout
