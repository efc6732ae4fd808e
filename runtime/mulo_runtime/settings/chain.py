"""The switches of methods that draft with the target's EAGLE head: one class for each acceptance rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mulo_runtime.draft_tree import STATIC_CHILDREN, static_nodes
from mulo_runtime.settings.checks import one_of, require

__all__ = ["CoolSD", "Lantern", "LanternPlus", "LinearRSD", "Speculative", "UniformRSD"]

_RESIDUALS = ("general", "vanilla")


@dataclass(frozen=True, slots=True)
class _Chain:
    """What all methods share that draft with an EAGLE head (arXiv 2401.15077).

    Attributes:
        length: L, tokens drafted in a round, one behind another; the depth of a tree.
        tree: "chain" drafts one token behind another; "static" has EAGLE-1's tree of 25 nodes, 5 deep at most, whose
            children are drawn; "dynamic" has EAGLE-2's (arXiv 2406.16858), whose children are the likeliest.
        tree_nodes: tokens of a dynamic tree that are verified.
        tree_width: children of a node of a dynamic tree, and nodes of a level that have some.
    """

    length: int = 4
    tree: Literal["chain", "static", "dynamic"] = "chain"
    tree_nodes: int = 62
    tree_width: int = 8

    def __post_init__(self) -> None:
        require("length", self.length, self.length >= 1, "1 or more")
        one_of("tree", self.tree, ("chain", "static", "dynamic"))
        if self.tree == "static":
            require("length", self.length, self.length <= len(STATIC_CHILDREN), f"at most {len(STATIC_CHILDREN)}")
        require("tree_nodes", self.tree_nodes, self.tree_nodes >= 1, "1 or more")
        require("tree_width", self.tree_width, self.tree_width >= 1, "1 or more")

    @property
    def most_drafted(self) -> int:
        """The most tokens that the target verifies in a pass."""
        if self.tree == "static":
            return static_nodes(self.length)
        return self.tree_nodes if self.tree == "dynamic" else self.length

    @property
    def most_read(self) -> int:
        """The most drafted tokens that the head reads in a round."""
        return self.tree_width * self.length if self.tree == "dynamic" else self.most_drafted


@dataclass(frozen=True, slots=True)
class Speculative(_Chain):
    """Exact speculative sampling (arXiv 2211.17192, arXiv 2302.01318): the target's distribution."""


@dataclass(frozen=True, slots=True)
class CoolSD(_Chain):
    """COOL-SD (arXiv 2601.09212): ratios weighed by an annealed omega.

    Attributes:
        delta: mean of omega; 1.1 to 4 in the paper.
        nu: how fast omega falls along the chain.
        residual: what a rejected token is drawn from anew: the "general" G*, or the "vanilla" one, which is wrong
            where omega is below 1.
    """

    delta: float = 1.1
    nu: float = 0.7
    residual: Literal["general", "vanilla"] = "general"

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        _positive("delta", self.delta)
        require("nu", self.nu, self.nu >= 0, "0 or more")
        one_of("residual", self.residual, _RESIDUALS)


@dataclass(frozen=True, slots=True)
class UniformRSD(_Chain):
    """Relaxed speculative decoding with one omega for the whole chain (arXiv 2601.09212, section 4).

    Attributes:
        delta: omega.
    """

    delta: float = 1.1

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        _positive("delta", self.delta)


@dataclass(frozen=True, slots=True)
class LinearRSD(_Chain):
    """Relaxed speculative decoding whose omega falls linearly along the chain (arXiv 2601.09212, appendix).

    Attributes:
        delta: mean of omega.
        horizon: ell, the depth at which omega would reach 0.
    """

    delta: float = 1.1
    horizon: int = 8

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        _positive("delta", self.delta)
        require("horizon", self.horizon, self.horizon > self.length, f"more than length, {self.length}")


@dataclass(frozen=True, slots=True)
class Lantern(_Chain):
    """LANTERN (arXiv 2410.03355): the mass of nearby codebook entries counts for the draft.

    Attributes:
        nearest: k, codebook entries nearby; 1000 in the paper.
        delta: the most mass that they may add.
    """

    nearest: int = 8
    delta: float = 0.4

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        _positive("delta", self.delta)
        require("nearest", self.nearest, self.nearest >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class LanternPlus(_Chain):
    """LANTERN++ (arXiv 2502.06352): the mass nearby is bounded by a multiple of the draft's own probability.

    Attributes:
        nearest: k, codebook entries nearby.
        multiple: lambda, by which the mass nearby may exceed the draft's own.
        residual: what a rejected token is drawn from anew: the authors' "vanilla" one, or the "general" G* of COOL-SD.
    """

    nearest: int = 10
    multiple: float = 2.0
    residual: Literal["general", "vanilla"] = "vanilla"

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        _positive("multiple", self.multiple)
        require("nearest", self.nearest, self.nearest >= 1, "1 or more")
        one_of("residual", self.residual, _RESIDUALS)


def _positive(name: str, value: float) -> None:
    require(name, value, 0 < value < float("inf"), "above 0")
