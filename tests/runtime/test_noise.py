"""Uniform numbers depend on seed, purpose and position, and on nothing else."""

from __future__ import annotations

import numpy as np
from mulo_runtime.noise import Purpose, uniforms
from scipy import stats


def test_a_number_does_not_depend_on_how_many_are_asked_for() -> None:
    assert (uniforms(7, Purpose.TARGET, 64) == uniforms(7, Purpose.TARGET, 1024)[:64]).all()


def test_seeds_and_purposes_have_streams_of_their_own() -> None:
    streams = [uniforms(seed, purpose, 256) for seed in (0, 1, 2**64 - 1) for purpose in Purpose]
    correlations = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlations).max() < 0.3


def test_numbers_are_uniform_and_below_one() -> None:
    numbers = uniforms(3, Purpose.DRAFT, 100_000)
    assert numbers.dtype == np.float32
    assert 0 <= numbers.min() < numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > 0.01
