"""The rule that a method's settings ask for."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.acceptance import grouped, lantern, lantern_plus
from mulo_runtime.acceptance.chain_rule import ChainRule
from mulo_runtime.acceptance.cool_sd import cool_sd
from mulo_runtime.acceptance.exact import Exact
from mulo_runtime.acceptance.linear_rsd import linear_rsd
from mulo_runtime.acceptance.uniform_rsd import uniform_rsd
from mulo_runtime.settings import (
    GSD,
    SJD,
    Chain,
    CoolSD,
    Jacobi,
    Lantern,
    LanternPlus,
    LinearRSD,
    Method,
    MuloSD,
    Speculative,
    UniformRSD,
)

__all__ = ["chain_rule", "neighbours_needed"]


def neighbours_needed(method: Method) -> int:
    """How many nearest codebook entries the method looks at on the host; 0 where it looks at none."""
    match method:
        case Lantern() | LanternPlus():
            return method.nearest
        case GSD():
            return method.group_k
        case MuloSD():
            return method.redraw_k
    return 0


def chain_rule(method: Chain | Jacobi, nearest: NDArray[np.int32]) -> ChainRule:
    """The rule of `method`.

    Args:
        method: the settings.
        nearest: of every codebook entry the `neighbours_needed` nearest, itself left out; [V, k].
    """
    match method:
        case Speculative() | SJD():
            return Exact()
        case CoolSD():
            return cool_sd(method.length, method.delta, method.nu, method.residual)
        case UniformRSD():
            return uniform_rsd(method.length, method.delta)
        case LinearRSD():
            return linear_rsd(method.length, method.delta, method.horizon)
        case Lantern():
            return lantern.Lantern(nearest, method.delta)
        case LanternPlus(residual="vanilla"):
            return lantern_plus.LanternPlus(nearest, method.multiple)
        case LanternPlus():
            return lantern_plus.LanternPlusGeneral(nearest, method.multiple)
        case GSD():
            return grouped.Grouped(nearest, method.group, method.group_gap)
    assert_never(method)
