"""How many slots of a model's cache are filled, by the switches that decide on it, and how large the cache must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from mulo_engines.buckets import query_bucket, query_buckets
from mulo_engines.manifest import Manifest, ModelRecord
from mulo_engines.memory import ModelBuffers

__all__ = [
    "SLOT_ALIGNMENT",
    "Grid",
    "RecommendedSwitches",
    "SlotSwitches",
    "drafter_slots",
    "model_buffers",
    "pass_buckets",
    "recommended_buffers",
    "target_slots",
]

Grid = tuple[int, int]
"""Rows and columns."""

SLOT_ALIGNMENT = 8
"""GPU attention kernels want a cache whose length is a multiple of this."""


class SlotSwitches(Protocol):
    """The switches of MuLo-SD that decide on slots; the runtime's `MuloSD` says what they mean."""

    @property
    def rows_per_round(self) -> int: ...  # noqa: D102
    @property
    def refresh(self) -> str: ...  # noqa: D102
    @property
    def draft(self) -> str: ...  # noqa: D102
    @property
    def look_ahead(self) -> int: ...  # noqa: D102
    @property
    def resynchronise(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class RecommendedSwitches:
    """What a manifest recommends; a switch that it leaves open has the value that needs the most slots.

    Drafts are the exception, for those made row by row can need many times as many: they are expected where the
    manifest asks for them.
    """

    rows_per_round: int
    refresh: str
    draft: str
    look_ahead: int
    resynchronise: bool

    @classmethod
    def of(cls, manifest: Manifest) -> RecommendedSwitches:
        """Read them from the manifest."""
        given: dict[str, Any] = dict(manifest.mulo)
        return cls(
            rows_per_round=given.get("rows_per_round", 0),
            refresh=given.get("refresh", "none"),
            draft=given.get("draft", "image"),
            look_ahead=given.get("look_ahead", manifest.drafter.rows),
            resynchronise=given.get("resynchronise", True),
        )


def target_slots(switches: SlotSwitches, grid: Grid, ratio: int) -> int:
    """The most slots that MuLo-SD fills behind the condition in the target's log; `grid` is the target's."""
    rows, cols = grid
    tokens = rows * cols
    round_rows = min(switches.rows_per_round * ratio or rows, rows)
    # A resampled token is fed once as a predecessor, and once more where the end of its run is refreshed.
    appended = 2 * (round_rows * cols if switches.refresh == "block" else tokens)
    return tokens + appended


def drafter_slots(switches: SlotSwitches, grid: Grid) -> int:
    """The most slots that MuLo-SD fills behind the condition in the drafter's log; `grid` is the drafter's."""
    rows, cols = grid
    drafted = rows * cols + rows
    if switches.draft == "image" or not switches.resynchronise:
        return drafted
    step = switches.rows_per_round or rows
    rounds = -(-rows // step)
    return drafted + rounds * (step + switches.look_ahead) * cols


def model_buffers(prefix: int, slots: int, queries: int) -> ModelBuffers:
    """Sizes of a model's buffers.

    Args:
        prefix: P, positions of the condition.
        slots: slots that are filled behind it.
        queries: the largest number of queries of one pass; its bucket is the room that padding may need.
    """
    largest = query_bucket(queries)
    filled = prefix + slots + largest
    return ModelBuffers(slots=-(-filled // SLOT_ALIGNMENT) * SLOT_ALIGNMENT, queries=largest)


def pass_buckets(model: ModelRecord, buffers: ModelBuffers) -> list[int]:
    """Q of every size of pass behind the condition's.

    No pass feeds more than the model's image, however many queries its lane has room for.
    """
    return query_buckets(min(buffers.queries, model.rows * model.cols))


def recommended_buffers(manifest: Manifest, queries: int) -> tuple[ModelBuffers, ModelBuffers]:
    """Sizes of the drafter's and the target's buffers that hold the MuLo-SD that the manifest recommends.

    They hold plain decoding and ZipAR, too, which fill fewer slots.

    Args:
        manifest: sizes and recommended switches.
        queries: the largest number of queries of one pass.
    """
    switches, prefix = RecommendedSwitches.of(manifest), manifest.condition.length
    low, high = (manifest.drafter.rows, manifest.drafter.cols), (manifest.target.rows, manifest.target.cols)
    queries = min(queries, high[0] * high[1])
    return (
        model_buffers(prefix, drafter_slots(switches, low), queries),
        model_buffers(prefix, target_slots(switches, high, manifest.ratio), queries),
    )
