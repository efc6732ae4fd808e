"""GPUs by their makers' numbers, and the shares of them that kernels reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mulo_tools.predict.machine import Machine

__all__ = ["GPUS", "Gpu", "Reached"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU's limits in its data sheet.

    Attributes:
        name: what it is called.
        bytes: bytes a second of its memory.
        products: dense fp16 FLOP a second of its tensor cores.
        multiprocessors: how many.
        clock: their boost clock, Hz.
    """

    name: str
    bytes: float
    products: float
    multiprocessors: int
    clock: float

    def machine(self, reached: Reached) -> Machine:
        """The rates that kernels sustain on it."""
        computed = self.products * reached.compute
        exponentials = self.multiprocessors * _EXPONENTIALS * self.clock * reached.compute
        moved = self.bytes * reached.bandwidth
        return Machine(reached.launch, moved, moved, computed, computed, exponentials)


@dataclass(frozen=True, slots=True)
class Reached:
    """What is left of a data sheet in practice; given, not measured.

    Attributes:
        bandwidth: share of the memory's bytes a second.
        compute: share of the tensor cores' FLOP a second.
        launch: seconds from one kernel of a CUDA graph to the next.
    """

    bandwidth: float = 0.8
    compute: float = 0.6
    launch: float = 2e-6


_EXPONENTIALS = 16
"""A clock and multiprocessor (CUDA programming guide, throughput of native arithmetic)."""

GPUS: Mapping[str, Gpu] = {
    "a100": Gpu("A100 SXM 80 GB", 2.039e12, 312e12, 108, 1.41e9),
    "h200": Gpu("H200 SXM", 4.8e12, 989e12, 132, 1.98e9),
}
"""NVIDIA's data sheets of both."""
