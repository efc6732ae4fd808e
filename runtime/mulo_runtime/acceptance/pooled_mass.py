"""Which candidates the target accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["AcceptanceRule", "PooledMass"]


class AcceptanceRule(Protocol):
    """Decides over candidates from what the sampler says of them."""

    @property
    def pool_k(self) -> int:
        """How many nearest codebook entries the sampler pools, the candidate included."""

    def accept(self, probability: NDArray[np.float32], mass: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which candidates are accepted, by their own `probability` and their pooled `mass`, all of one shape."""


@dataclass(frozen=True, slots=True)
class PooledMass:
    """MuLo-SD's rule: accept x when the sum of p(v) over its k nearest codebook entries v reaches tau.

    Deterministic and independent of the drafter's probabilities, hence not lossless (arXiv 2601.05149).

    Attributes:
        tau: the mass asked for.
        nearest: k, the number of entries pooled.
        include_self: whether x is one of the k.
    """

    tau: float
    nearest: int
    include_self: bool = True

    @property
    def pool_k(self) -> int:
        """See `AcceptanceRule.pool_k`."""
        return self.nearest if self.include_self else self.nearest + 1

    def accept(self, probability: NDArray[np.float32], mass: NDArray[np.float32]) -> NDArray[np.bool_]:
        """See `AcceptanceRule.accept`."""
        pooled = mass if self.include_self else mass - probability
        return pooled >= self.tau
