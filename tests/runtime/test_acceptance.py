"""MuLo-SD accepts by pooled mass."""

from __future__ import annotations

import numpy as np
from mulo_runtime.acceptance import PooledMass

PROBABILITY = np.array([0.05, 0.0, 0.2], np.float32)
MASS = np.array([0.1, 0.3, 0.2], np.float32)


def test_a_candidate_is_accepted_when_its_neighbourhood_reaches_tau() -> None:
    assert PooledMass(0.2, 4).accept(PROBABILITY, MASS).tolist() == [False, True, True]


def test_zero_accepts_everything_and_more_than_one_nothing() -> None:
    assert PooledMass(0.0, 4).accept(PROBABILITY, MASS).all()
    assert not PooledMass(1.5, 4).accept(PROBABILITY, MASS).any()


def test_without_itself_k_others_are_pooled() -> None:
    rule = PooledMass(0.2, 4, include_self=False)
    assert rule.pool_k == 5
    assert rule.accept(PROBABILITY, MASS).tolist() == [False, True, False]
