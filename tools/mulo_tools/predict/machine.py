"""A machine as a handful of rates, and the seconds that it needs for some work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from mulo_tools.predict.work import Step, Work

__all__ = ["Machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates that a machine sustains.

    Attributes:
        launch: seconds from one kernel to the next, whatever they do.
        bytes: bytes a second.
        cached: bytes a second of what attention reads of the cache, which on a processor does not stay near a core.
        products: FLOP a second of products of matrices.
        convolutions: FLOP a second of convolutions.
        elements: exponentials a second.
        several: seconds that the host takes longer to prepare a pass of several queries than one of one query.
        decided: probabilities a second that the host decides by; a GPU decides beside what else it does.
        copies: whether attention of several queries copies the cache first, as ONNX Runtime's does on a CPU.
        overlaps: whether bytes move while others are computed with, as on a GPU; a lone core does one at a time.
    """

    launch: float
    bytes: float
    cached: float
    products: float
    convolutions: float
    elements: float
    several: float = 0.0
    decided: float = float("inf")
    copies: bool = False
    overlaps: bool = True

    def pass_seconds(self, work: Work) -> float:
        """Launches, then moving and computing: the slower of them (roofline, Williams et al. 2009), or both."""
        moving = work.bytes / self.bytes + (work.cached + work.copied * self.copies) / self.cached
        computing = (
            work.products / self.products + work.convolutions / self.convolutions + work.elements / self.elements
        )
        both = max(moving, computing) if self.overlaps else moving + computing
        host = work.several * self.several + work.decided / self.decided
        return work.launches * self.launch + host + both

    def seconds(self, steps: Iterable[Step]) -> float:
        """Seconds of all steps, one after the other."""
        return sum(step.count * self.pass_seconds(step.work) for step in steps)

    def paced(self, steps: Sequence[Step], seconds: float) -> Self:
        """This machine with launches so slow that `steps` take `seconds`, as a host that cannot keep up makes them."""
        launches = sum(step.count * step.work.launches for step in steps)
        return replace(self, launch=(seconds - replace(self, launch=0.0).seconds(steps)) / launches)
