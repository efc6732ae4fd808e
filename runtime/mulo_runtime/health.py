"""Whether a pipeline works, found out by having it work."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Literal

import numpy as np

from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.lane import Lane
from mulo_runtime.lane_pool import Load
from mulo_runtime.settings import AutoRegressive, Sampling

__all__ = ["Health", "State", "probe"]

State = Literal["cold", "warming", "ready", "failed", "closed"]
"""Opened; walking its branches; warm; a branch failed; serving nothing new."""


@dataclass(frozen=True, slots=True)
class Health:
    """What `Pipeline.health` found.

    Attributes:
        state: what the pipeline is there for.
        load: lanes and queue.
        step_seconds: how long a step of a spare lane took; None where every lane was at work.
        fault: why the pipeline does not work; None where it does.
    """

    state: State
    load: Load
    step_seconds: float | None
    fault: str | None

    @property
    def live(self) -> bool:
        """Whether lanes step; if not, the process has to be started again."""
        return self.fault is None

    @property
    def ready(self) -> bool:
        """Whether requests meet nothing for the first time and are served."""
        return self.live and self.state == "ready"


def probe(lane: Lane, conditions: ConditionEncoder, sampling: Sampling) -> float:
    """Have the target read a condition and draw a token.

    Returns:
        Seconds.

    Raises:
        EngineError: an engine failed, or its logits are not finite.
    """
    start = perf_counter()
    images = lane.images
    lane.prepare(sampling, AutoRegressive())
    embeds, visible = conditions.encode([conditions.example()] * images, {"target": sampling.guided})
    lane.target.begin(embeds["target"], visible, None, np.zeros((images, 1), np.float32))
    return perf_counter() - start
