"""When a method is given up, and for what."""

from __future__ import annotations

from dataclasses import dataclass, field

from mulo_runtime.settings.checks import require
from mulo_runtime.settings.methods import AutoRegressive, ZipAR

__all__ = ["Fallback"]


@dataclass(frozen=True, slots=True)
class Fallback:
    """Gives MuLo-SD up for a method without a drafter, where the drafter is of little use.

    Attributes:
        floor: the accepted share below which the image is begun anew, looked at after every verification.
        method: how it is then decoded; its tokens are those that this method alone gives for the seed.
    """

    floor: float
    method: ZipAR | AutoRegressive = field(default_factory=ZipAR)

    def __post_init__(self) -> None:
        require("floor", self.floor, 0 <= self.floor <= 1, "0 to 1")
