"""Predicted seconds and speed-ups of methods on a GPU, under hosts of three kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mulo_tools.predict.machine import Machine
from mulo_tools.predict.scenarios import Scenario

__all__ = ["HOSTS", "Predicted", "predict"]

HOSTS: Mapping[str, str] = {
    "eager": "launches as slow as the published baseline's",
    "graphs": "launches as inside CUDA graphs",
    "none": "no time between kernels",
}
"""Kinds of hosts, and what they stand for."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction for one method.

    Attributes:
        scenario: the method and what it is assumed to accept.
        target_passes: passes of the target.
        draft_passes: passes of the drafter or the head.
        seconds: seconds per image by kind of host.
        speedups: plain decoding's seconds by these.
    """

    scenario: Scenario
    target_passes: float
    draft_passes: float
    seconds: Mapping[str, float]
    speedups: Mapping[str, float]


def predict(scenarios: Sequence[Scenario], machine: Machine, pace: Machine) -> list[Predicted]:
    """Predict `scenarios`, of which the first is plain decoding.

    Args:
        scenarios: methods.
        machine: the GPU.
        pace: a machine whose launches take as long as the published baseline's.
    """
    machines = dict(zip(HOSTS, _hosts(machine, pace), strict=True))
    plain = {host: each.seconds(scenarios[0].steps) for host, each in machines.items()}
    return [_predicted(scenario, machines, plain) for scenario in scenarios]


def _hosts(machine: Machine, pace: Machine) -> Iterator[Machine]:
    for launch in (pace.launch, machine.launch, 0.0):
        yield replace(machine, launch=launch)


def _predicted(scenario: Scenario, machines: Mapping[str, Machine], plain: Mapping[str, float]) -> Predicted:
    seconds = {host: machine.seconds(scenario.steps) for host, machine in machines.items()}
    return Predicted(
        scenario=scenario,
        target_passes=_passes(scenario, "target"),
        draft_passes=_passes(scenario, "drafter") + _passes(scenario, "head"),
        seconds=seconds,
        speedups={host: plain[host] / value for host, value in seconds.items()},
    )


def _passes(scenario: Scenario, engine: str) -> float:
    return sum(step.count for step in scenario.steps if step.engine == engine)
