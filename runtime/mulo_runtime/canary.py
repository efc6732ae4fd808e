"""A few images of fixed seeds, whose acceptance tells whether drafter and target still agree as they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mulo_engines.errors import ParityError
from mulo_engines.manifest import CanaryRecord

from mulo_runtime.conditions import Condition
from mulo_runtime.request import Request, Result

__all__ = ["check_canary", "read_canary"]

_IMAGES = 4
_TOLERANCE = 0.1
"""Far above what other kernels change, and far below what a broken engine does to either number."""


def read_canary(generate: Callable[[Request], Result], examples: Sequence[Condition]) -> CanaryRecord:
    """Accepted share and pooled mass of the bundle's MuLo-SD, over images of seeds 0, 1, ... and `examples` in turn."""
    requests = [Request(examples[seed % len(examples)], seed=seed) for seed in range(_IMAGES)]
    statistics = [generate(request).statistics for request in requests]
    return CanaryRecord(
        images=_IMAGES,
        accepted_share=float(np.mean([one.accepted_share or 0.0 for one in statistics])),
        pooled_mass=float(np.mean([one.pooled_mass or 0.0 for one in statistics])),
    )


def check_canary(found: CanaryRecord, baseline: CanaryRecord) -> None:
    """Refuse engines whose canary lies far from the bundle's baseline.

    Raises:
        ParityError: as it says.
    """
    apart = abs(found.accepted_share - baseline.accepted_share), abs(found.pooled_mass - baseline.pooled_mass)
    if max(apart) > _TOLERANCE:
        raise ParityError(
            "the canary images are not accepted as they were when the baseline was recorded",
            found=f"accepted share {found.accepted_share:.3f}, pooled mass {found.pooled_mass:.3f}",
            expected=f"{baseline.accepted_share:.3f} and {baseline.pooled_mass:.3f}, by {_TOLERANCE} at most",
            fix="build the engines again, or record the baseline anew with `mulo canary BUNDLE --record`",
        )
