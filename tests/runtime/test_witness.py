"""A decoder whose pixels are not finite makes no image, though its bytes would look like one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import broken_decoder_bundle, without_witness
from conftest import MakeBundle
from mulo_engines.errors import NonFiniteError
from mulo_engines.manifest import MANIFEST_NAME, read_manifest
from mulo_runtime import AutoRegressive, MuloSD, Pipeline
from mulo_runtime.pixels import check_witness
from pipelines import MakePipeline, request

METHODS = [AutoRegressive(), MuloSD()]


@pytest.fixture(params=[np.nan, np.inf], ids=str)
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline.open(broken_decoder_bundle(tmp_path, request.param), threads=1) as pipeline:
        yield pipeline


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_image_is_refused_and_the_lane_is_free_for_the_next(broken: Pipeline, method: Any) -> None:
    for seed in range(2):
        with pytest.raises(NonFiniteError, match="decoder: the pixels are not finite"):
            broken.generate(request(seed, method))
    assert broken.load().free == 1


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_first_preview_is_refused(broken: Pipeline, method: Any) -> None:
    with pytest.raises(NonFiniteError, match="decoder: the pixels are not finite"):
        next(broken.stream(request(0, method)))


def test_what_is_refused_is_told_with_its_image_and_a_way_out() -> None:
    witness = np.array([0.5, np.nan, 0, np.inf], np.float32)
    with pytest.raises(
        NonFiniteError, match=r"(?s)decoder.*found: +NaN or infinity in image 1, 3 of 4.*expected:.*fix:.*fp32"
    ):
        check_witness("decoder", witness)


def test_a_warm_up_finds_it_before_any_request(broken: Pipeline) -> None:
    with pytest.raises(NonFiniteError):
        broken.warm_up()
    assert broken.state == "failed"


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_older_export_without_a_witness_draws_the_same(
    open_pipeline: MakePipeline, shared_bundle: MakeBundle, tmp_path: Path, method: Any
) -> None:
    expected = open_pipeline().generate(request(3, method))
    with Pipeline.open(without_witness(shared_bundle(), tmp_path / "older"), threads=1) as older:
        assert np.array_equal(older.generate(request(3, method)).image, expected.image)


def test_an_older_export_is_not_guarded(tmp_path: Path) -> None:
    older = without_witness(broken_decoder_bundle(tmp_path, np.nan), tmp_path / "older")
    assert not read_manifest(older / MANIFEST_NAME).decoder_witness
    with Pipeline.open(older, threads=1) as pipeline:
        assert pipeline.generate(request(0, AutoRegressive())).image.dtype == np.uint8
