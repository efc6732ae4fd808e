"""How long one layer of a graph takes, by whatever name its backend gives it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LayerTime"]


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer.

    Attributes:
        name: its name.
        kind: the operator that it computes.
        seconds: mean of a pass.
    """

    name: str
    kind: str
    seconds: float
