"""Whether a pipeline works, found out by having it work."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
from mulo_engines.errors import MuloError

from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.lane import Lane
from mulo_runtime.lane_pool import LanePool, Load
from mulo_runtime.readiness import State
from mulo_runtime.settings import AutoRegressive, Sampling

__all__ = ["Health", "examine"]


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


def examine(state: State, pool: LanePool, conditions: ConditionEncoder, sampling: Sampling, silence: float) -> Health:
    """See `Pipeline.health`."""
    seconds, fault = None, None
    try:
        with pool.spare() as lane:
            if lane is not None:
                seconds = _step(lane, conditions, sampling)
    except MuloError as error:
        fault = str(error)
    load, failure = pool.load(), pool.failure
    if failure is not None:
        fault = str(failure)
    if load.silence is not None and load.silence > silence:
        fault = f"a lane has been at work for {load.silence:.0f} s without a pass"
    return Health(state, load, seconds, fault)


def _step(lane: Lane, conditions: ConditionEncoder, sampling: Sampling) -> float:
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
