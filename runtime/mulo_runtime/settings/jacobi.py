"""The switches of methods in which the target drafts for itself, by its own distributions of the pass before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mulo_runtime.settings.checks import one_of, require

__all__ = ["GSD", "PJD", "SJD"]

_STARTS = ("random", "left")


@dataclass(frozen=True, slots=True)
class SJD:
    """Speculative Jacobi decoding (arXiv 2410.01699): the target's exact distribution, in fewer passes.

    Attributes:
        jacobi_window: W, drafted tokens that a pass verifies.
        start: what a token is before its first pass: a "random" one, or a copy of the one to its "left".
    """

    jacobi_window: int = 16
    start: Literal["random", "left"] = "random"

    def __post_init__(self) -> None:
        require("jacobi_window", self.jacobi_window, self.jacobi_window >= 1, "1 or more")
        one_of("start", self.start, _STARTS)


@dataclass(frozen=True, slots=True)
class GSD:
    """Grouped speculative decoding (arXiv 2508.07747): SJD whose ratio is that of the masses of a group of tokens.

    Attributes:
        jacobi_window: W, drafted tokens that a pass verifies.
        start: as of `SJD`.
        group: tokens of the group, the draft in their middle by the target's probability.
        group_gap: how far the probability of a member may be from the draft's; 0.15 in the authors' code.
        group_k: members are among this many nearest codebook entries, in place of the authors' bound on distances.
    """

    jacobi_window: int = 16
    start: Literal["random", "left"] = "random"
    group: int = 15
    group_gap: float = 0.15
    group_k: int = 32

    def __post_init__(self) -> None:
        require("jacobi_window", self.jacobi_window, self.jacobi_window >= 1, "1 or more")
        one_of("start", self.start, _STARTS)
        require("group", self.group, self.group >= 1, "1 or more")
        require("group_gap", self.group_gap, self.group_gap >= 0, "0 or more")
        require("group_k", self.group_k, self.group_k >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class PJD:
    """Rows decoded in parallel as by ZipAR, each by Jacobi as by SJD (arXiv 2606.05703): our reading, without code.

    Attributes:
        window: c, tokens that a row holds when the next one opens.
        jacobi_window: W, drafted tokens of every open row that a pass verifies.
    """

    window: int = 8
    jacobi_window: int = 4

    def __post_init__(self) -> None:
        require("window", self.window, self.window >= 1, "1 or more")
        require("jacobi_window", self.jacobi_window, self.jacobi_window >= 1, "1 or more")
