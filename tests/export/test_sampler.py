"""The sampler's graph against sorting in float64, against exact arithmetic at the edges, and against statistics."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import astuple, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_models import load_graph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mulo_engines.engine import Engine
from mulo_export.graphs.sampler import sampler_graph
from mulo_export.reference.sampler import SamplingSettings, distribution, sample
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

VOCABULARY = 64
POOL = 9
NEIGHBOURS = np.array([np.roll(np.arange(VOCABULARY), -code)[:POOL] for code in range(VOCABULARY)])
LAST_UNIFORM = np.nextafter(np.float32(1), np.float32(0))
OFF = SamplingSettings()

FILTERS = [
    replace(OFF, temperature=temperature, top_k=top_k, top_p=top_p)
    for temperature, top_k, top_p in product((0.0, 0.7, 1.3), (0, 1, 20, VOCABULARY, 1000), (0.0, 0.3, 0.95, 1.0))
]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The sampler that also gives its distribution."""
    with load_graph(sampler_graph(NEIGHBOURS, full=True), tmp_path_factory.mktemp("sampler") / "full.onnx") as engine:
        yield engine


def _run(
    engine: Engine, logits: NDArray[Any], uniforms: NDArray[Any], setting: SamplingSettings, candidates: Any = 0
) -> Arrays:
    """Run on logits [B, R, V] and uniforms [N, R]."""
    scalars = {
        field.name: np.array(value, np.int64 if isinstance(value, int) else np.float32)
        for field, value in zip(fields(setting), astuple(setting), strict=True)
    }
    rows = {
        "logits": logits.astype(np.float32),
        "candidate_ids": np.broadcast_to(np.asarray(candidates, np.int64), uniforms.shape).copy(),
        "uniforms": uniforms.astype(np.float32),
    }
    return engine.run_once(rows | scalars)


def _random(shape: tuple[int, ...], seed: int = 0, spread: float = 2.0) -> NDArray[np.float32]:
    return (spread * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def _uniforms(shape: tuple[int, ...], seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def test_the_golden_distributions_are_reproduced(full: Engine) -> None:
    with np.load(Path(__file__).parents[1] / "golden" / "filter.npz") as golden:
        logits, cases, expected = golden["logits"][None], golden["cases"], golden["probs"]
    assert len(cases) == 7
    for (temperature, top_k, top_p), probs in zip(cases, expected, strict=True):
        setting = SamplingSettings(temperature=temperature, top_k=int(top_k), top_p=top_p)
        found = _run(full, logits, _uniforms((1, 5)), setting)["probs"][0]
        assert np.abs(found - probs).max() < 1e-6
        assert np.abs(distribution(logits, 1, setting)[0] - probs).max() < 1e-6


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("halves", [1, 2])
def test_every_filter_gives_the_distribution_that_sorting_gives(full: Engine, halves: int, images: int) -> None:
    logits, uniforms = _random((halves * images, 5, VOCABULARY)), _uniforms((images, 5))
    candidates = np.random.default_rng(2).integers(0, VOCABULARY, (images, 5))
    for setting in (replace(filters, guidance_scale=2.5, pool_k=4) for filters in FILTERS):
        found = _run(full, logits, uniforms, setting, candidates)
        expected = sample(logits, candidates, uniforms, setting, NEIGHBOURS)
        assert np.abs(found["probs"] - expected.probs).max() < 2e-6, setting
        assert np.array_equal(found["probs"] > 0, expected.probs > 0), setting
        assert np.abs(found["candidate_prob"] - expected.candidate_prob).max() < 2e-6, setting
        assert np.abs(found["candidate_mass"] - expected.candidate_mass).max() < 4e-6, setting


def test_the_token_is_the_first_whose_cumulative_probability_exceeds_the_uniform(full: Engine) -> None:
    uniforms = _uniforms((2, 200))
    for setting in FILTERS:
        found = _run(full, _random((2, 200, VOCABULARY)), uniforms, setting)
        cumulative = found["probs"].cumsum(axis=-1)
        beyond = cumulative > (uniforms * cumulative[..., -1])[..., None]
        assert np.array_equal(found["token_ids"], beyond.argmax(axis=-1)), setting
    assert len(np.unique(found["token_ids"])) > 10


def test_without_a_null_half_the_guidance_scale_has_no_effect(full: Engine) -> None:
    logits, uniforms = _random((2, 6, VOCABULARY)), _uniforms((2, 6))
    plain, guided = (_run(full, logits, uniforms, replace(OFF, guidance_scale=scale)) for scale in (1.0, 7.5))
    assert np.array_equal(plain["probs"], guided["probs"])


def test_guidance_extrapolates_from_the_null_half_which_comes_last(full: Engine) -> None:
    conditional, null = _random((1, 1, VOCABULARY)), np.zeros((1, 1, VOCABULARY), np.float32)
    logits = np.concatenate([conditional, null])
    found = _run(full, logits, _uniforms((1, 1)), replace(OFF, guidance_scale=3.0))["probs"]
    assert found == pytest.approx(distribution(3 * conditional, 1, OFF), abs=1e-6)


def test_temperature_zero_is_one_hot_at_the_first_of_the_largest_whatever_else_is_asked(full: Engine) -> None:
    logits = _random((1, 3, VOCABULARY))
    logits[0, :, [50, 20]] = 30
    for setting in (replace(filters, temperature=0.0) for filters in FILTERS):
        for uniform in (0.0, 0.5, LAST_UNIFORM):
            found = _run(full, logits, np.full((1, 3), uniform), setting, candidates=20)
            assert np.array_equal(found["token_ids"], [[20, 20, 20]])
            assert np.array_equal(found["probs"][0], np.eye(VOCABULARY)[[20, 20, 20]])
            assert np.array_equal(found["candidate_prob"], [[1, 1, 1]])


def test_what_equals_the_kth_largest_logit_stays(full: Engine) -> None:
    logits = np.zeros((1, 1, VOCABULARY))
    logits[..., [3, 9, 33, 60]] = [4, 2, 2, 2]
    probs = _run(full, logits, _uniforms((1, 1)), replace(OFF, top_k=2))["probs"]
    assert np.flatnonzero(probs).tolist() == [3, 9, 33, 60]


def test_the_token_that_crosses_the_nucleus_and_its_equals_stay(full: Engine) -> None:
    logits = np.full((1, 1, VOCABULARY), -200.0)
    logits[..., [5, 6, 7, 8]] = np.log([0.4, 0.25, 0.25, 0.1])
    for top_p, kept in ((0.0, [5]), (0.39, [5]), (0.41, [5, 6, 7]), (0.89, [5, 6, 7]), (0.91, [5, 6, 7, 8])):
        probs = _run(full, logits, _uniforms((1, 1)), replace(OFF, top_p=top_p))["probs"]
        assert np.flatnonzero(probs).tolist() == kept, top_p


def test_the_ends_of_the_unit_interval_draw_the_first_and_the_last_possible_token(full: Engine) -> None:
    logits = np.full((1, 2, VOCABULARY), -300.0)
    logits[..., 10:41] = _random((1, 2, 31))
    found = _run(full, logits, np.array([[0.0, LAST_UNIFORM]]), OFF)
    assert found["token_ids"].tolist() == [[10, 40]]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scores=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=VOCABULARY),
    uniform=st.floats(0, 1, width=32, exclude_max=True),
    seed=st.integers(0, 1000),
    setting=st.sampled_from(FILTERS),
)
def test_a_token_of_probability_zero_is_never_drawn(
    full: Engine, scores: list[float], uniform: float, seed: int, setting: SamplingSettings
) -> None:
    logits = np.full((1, 3, VOCABULARY), -500.0)
    logits[..., np.random.default_rng(seed).permutation(VOCABULARY)[: len(scores)]] = scores
    found = _run(full, logits, np.array([[0, uniform, LAST_UNIFORM]]), setting)
    drawn = np.take_along_axis(found["probs"], found["token_ids"][..., None], axis=-1)
    assert (drawn > 0).all()


@pytest.mark.parametrize("row", [0, 1], ids=["conditional", "null"])
@pytest.mark.parametrize("setting", [OFF, *(replace(OFF, **{k: v}) for k, v in (("top_k", 5), ("top_p", 0.9)))])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_nan_anywhere_in_a_row_makes_its_probabilities_nan_and_leaves_other_rows_alone(
    full: Engine, row: int, setting: SamplingSettings, temperature: float
) -> None:
    logits = _random((2, VOCABULARY + 1, VOCABULARY))
    logits[row, np.arange(VOCABULARY), np.arange(VOCABULARY)] = np.nan
    setting = replace(setting, temperature=temperature, guidance_scale=2.0, pool_k=3)
    found = _run(full, logits, _uniforms((1, VOCABULARY + 1)), setting, candidates=7)
    assert np.isnan(found["candidate_prob"][0, :-1]).all()
    assert np.isnan(found["candidate_mass"][0, :-1]).all()
    assert np.isfinite([found["candidate_prob"][0, -1], found["candidate_mass"][0, -1]]).all()
    assert ((found["token_ids"] >= 0) & (found["token_ids"] < VOCABULARY)).all()


def test_the_mass_pools_the_candidate_and_its_nearest_codes_for_every_number_of_them(full: Engine) -> None:
    logits, candidates = _random((1, VOCABULARY, VOCABULARY)), np.arange(VOCABULARY)[None]
    probs = distribution(logits, 1, OFF)
    for pool_k in range(POOL + 1):
        found = _run(full, logits, _uniforms((1, VOCABULARY)), replace(OFF, pool_k=pool_k), candidates)
        near = np.take_along_axis(probs, NEIGHBOURS[None, :, :pool_k], axis=-1)
        assert found["candidate_mass"] == pytest.approx(near.sum(axis=-1), abs=2e-6)
        if pool_k == 1:
            assert np.array_equal(found["candidate_mass"], found["candidate_prob"])


@pytest.mark.parametrize("setting", [OFF, replace(OFF, top_k=12, temperature=1.5), replace(OFF, top_p=0.7)])
def test_draws_follow_the_distribution(full: Engine, setting: SamplingSettings) -> None:
    count = 40_000
    logits = np.repeat(_random((1, 1, VOCABULARY), spread=1.0), count, axis=1)
    found = _run(full, logits, _uniforms((1, count)), setting)
    expected = count * distribution(logits[:, :1], 1, setting)[0, 0]
    drawn = np.bincount(found["token_ids"][0], minlength=VOCABULARY)
    possible = expected > 0
    assert drawn[~possible].sum() == 0
    statistic = ((drawn[possible] - expected[possible]) ** 2 / expected[possible]).sum()
    freedom = possible.sum() - 1
    # Five standard deviations of chi-square, whose variance is twice its mean.
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize(("vocabulary", "largest"), [(512, 512), (16384, 2000)])
def test_vocabularies_of_real_models_are_sampled_as_by_sorting(tmp_path: Path, vocabulary: int, largest: int) -> None:
    neighbours = (np.arange(vocabulary)[:, None] + np.arange(16)) % vocabulary
    logits, uniforms = _random((4, 8, vocabulary)), _uniforms((2, 8))
    candidates = np.random.default_rng(3).integers(0, vocabulary, (2, 8))
    with load_graph(sampler_graph(neighbours, full=True), tmp_path / "sampler.onnx") as engine:
        for top_k, top_p in product((0, 100, largest), (0.9, 1.0)):
            setting = SamplingSettings(guidance_scale=2.0, temperature=0.9, top_k=top_k, top_p=top_p, pool_k=16)
            found = _run(engine, logits, uniforms, setting, candidates)
            expected = sample(logits, candidates, uniforms, setting, neighbours)
            # Of tokens whose scores differ by a rounding error, sorting in float64 may keep one more or one less.
            assert np.abs(np.count_nonzero(found["probs"], -1) - np.count_nonzero(expected.probs, -1)).max() <= 1
            assert np.abs(found["probs"] - expected.probs).max() < 1e-4
            assert _distance_to_its_interval(found["token_ids"], expected.probs, uniforms).max() < 1e-4
            assert found["candidate_mass"] == pytest.approx(expected.candidate_mass, abs=1e-4)


def test_the_short_sampler_draws_what_the_full_one_draws(full: Engine, tmp_path: Path) -> None:
    logits, uniforms = _random((2, 50, VOCABULARY)), _uniforms((1, 50))
    with load_graph(sampler_graph(NEIGHBOURS, full=False), tmp_path / "sampler.onnx") as short:
        assert set(full.outputs) - set(short.outputs) == {"probs"}
        for setting in (OFF, replace(OFF, top_k=5, top_p=0.9, pool_k=3)):
            expected = _run(full, logits, uniforms, setting, candidates=3)
            for name, value in _run(short, logits, uniforms, setting, candidates=3).items():
                assert np.array_equal(value, expected[name])


def _distance_to_its_interval(
    token_ids: NDArray[np.int64], probs: NDArray[np.float64], uniforms: NDArray[np.float32]
) -> NDArray[np.float64]:
    """How far each uniform lies outside the part of the cumulative distribution that is its token's."""
    end = np.take_along_axis(probs.cumsum(axis=-1), token_ids[..., None], axis=-1)[..., 0]
    start = end - np.take_along_axis(probs, token_ids[..., None], axis=-1)[..., 0]
    return np.maximum(np.maximum(start - uniforms, uniforms - end), 0)


def test_the_reference_takes_memory_for_what_it_returns_and_not_for_a_square_of_the_vocabulary() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 4, 16384), np.float32)
    tracemalloc.start()
    try:
        probs = distribution(logits, 2, SamplingSettings(temperature=0.0))
        assert tracemalloc.get_traced_memory()[1] < 10 * probs.nbytes
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(probs.argmax(axis=-1), logits.argmax(axis=-1))
    assert (probs.sum(axis=-1) == 1).all()
