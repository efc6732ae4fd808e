"""What a profile found, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mulo_runtime import method_name, method_settings
from pydantic import BaseModel, ConfigDict

from mulo_tools.machine import Machine
from mulo_tools.output import replacing
from mulo_tools.profile.ceilings import Ceilings
from mulo_tools.profile.graph_times import CaseTime
from mulo_tools.profile.latency import Latency
from mulo_tools.profile.layers import CaseLayers
from mulo_tools.profile.loop import LoopTimes

__all__ = [
    "CeilingRow",
    "GraphRow",
    "LayerRow",
    "LayersRow",
    "LoopRow",
    "ProfileReport",
    "Quantiles",
    "ceiling_row",
    "graph_row",
    "layers_row",
    "loop_row",
    "write_profile",
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Quantiles(_Record):
    """Seconds: the first time, the quantiles of the later times, and how many these were."""

    cold: float
    p50: float
    p95: float
    p99: float
    runs: int


class CeilingRow(_Record):
    """What the machine can do; see `Ceilings`."""

    copy_bytes_per_second: float
    read_bytes_per_second: float
    flop_per_second: float | None


class GraphRow(_Record):
    """One size of one graph.

    Attributes:
        graph: its name.
        size: what tables call the size.
        sizes: the symbols of its signature.
        load_seconds: loading the graph.
        seconds: of a bound call.
        other_seconds: of Polygraphy's runner, where it was asked for and takes the engine.
        weight_bytes: read by a pass.
        cache_bytes: read and written by a pass.
        other_bytes: further inputs and outputs.
        flop: of a pass.
        bytes_per_second: achieved at the median.
        flop_per_second: achieved at the median.
        limit_seconds: what the machine needs at least; None where its ceilings were not measured.
        share_of_limit: limit by median; above 1 where weights stay in the processor's caches.
    """

    graph: str
    size: str
    sizes: dict[str, int]
    load_seconds: float
    seconds: Quantiles
    other_seconds: Quantiles | None
    weight_bytes: int
    cache_bytes: int
    other_bytes: int
    flop: int
    bytes_per_second: float
    flop_per_second: float
    limit_seconds: float | None
    share_of_limit: float | None


class LayerRow(_Record):
    """One layer: its name, its operator and its mean seconds."""

    name: str
    kind: str
    seconds: float


class LayersRow(_Record):
    """The layers of one size of one graph, in the order in which they run."""

    graph: str
    size: str
    layers: tuple[LayerRow, ...]


class LoopRow(_Record):
    """Whole images of one method.

    Attributes:
        method: "ar", "zipar" or "mulo-sd".
        settings: the method's switches.
        opening_seconds: from the bundle on disk to a pipeline.
        seconds: of an image.
        phases: seconds of every phase's engines, and of the host beside them.
        passes: runs of every engine in the image of median time.
    """

    method: str
    settings: dict[str, Any]
    opening_seconds: float
    seconds: Quantiles
    phases: dict[str, Quantiles]
    passes: dict[str, int]


class ProfileReport(_Record):
    """A profile.

    Attributes:
        bundle: name of the bundle's folder and the first digits of its digest.
        backend: what ran it.
        machine: where it ran.
        ceilings: what the machine can do; None where the backend could not measure it.
        graphs: one row for every size of every graph.
        layers: layers of the graphs that were asked for.
        loops: one row for every method.
    """

    bundle: str
    backend: str
    machine: Machine
    ceilings: CeilingRow | None
    graphs: tuple[GraphRow, ...]
    layers: tuple[LayersRow, ...]
    loops: tuple[LoopRow, ...]

    @property
    def title(self) -> str:
        """What ran where, in one line."""
        machine = self.machine
        return f"{self.bundle}, {self.backend} on {machine.processor}, {machine.threads} of {machine.cores} cores"


def ceiling_row(ceilings: Ceilings | None) -> CeilingRow | None:
    """`ceilings` for the file."""
    if ceilings is None:
        return None
    return CeilingRow(
        copy_bytes_per_second=ceilings.copy_bytes,
        read_bytes_per_second=ceilings.read_bytes,
        flop_per_second=ceilings.flop,
    )


def graph_row(time: CaseTime, ceilings: Ceilings | None) -> GraphRow:
    """`time` held against the machine's ceilings."""
    cost, median = time.cost, time.bound.quantile(50)
    limit = None if ceilings is None else ceilings.limit(cost)
    return GraphRow(
        graph=time.case.graph,
        size=time.case.label,
        sizes=dict(time.case.sizes),
        load_seconds=time.load,
        seconds=_quantiles(time.bound),
        other_seconds=None if time.other is None else _quantiles(time.other),
        weight_bytes=cost.weight_bytes,
        cache_bytes=cost.cache_read_bytes + cost.cache_written_bytes,
        other_bytes=cost.other_bytes,
        flop=cost.flop,
        bytes_per_second=cost.bytes / median,
        flop_per_second=cost.flop / median,
        limit_seconds=limit,
        share_of_limit=None if limit is None else limit / median,
    )


def layers_row(case_layers: CaseLayers) -> LayersRow:
    """`case_layers` for the file."""
    case = case_layers.case
    rows = (LayerRow(name=layer.name, kind=layer.kind, seconds=layer.seconds) for layer in case_layers.layers)
    return LayersRow(graph=case.graph, size=case.label, layers=tuple(rows))


def loop_row(times: LoopTimes) -> LoopRow:
    """`times` for the file."""
    engines = times.typical.result.statistics.engines
    return LoopRow(
        method=method_name(times.method),
        settings=method_settings(times.method),
        opening_seconds=times.opening,
        seconds=_quantiles(times.latency),
        phases={name: _quantiles(latency) for name, latency in times.by_phase().items()},
        passes={name: usage.passes for name, usage in engines.items()},
    )


def _quantiles(latency: Latency) -> Quantiles:
    """The figures of a latency that are shown."""
    shares: Mapping[str, float] = {f"p{percent}": latency.quantile(percent) for percent in (50, 95, 99)}
    return Quantiles(cold=latency.cold, runs=len(latency.warm), **shares)


def write_profile(report: ProfileReport, path: Path) -> None:
    """Write `report` as JSON; the file appears whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
