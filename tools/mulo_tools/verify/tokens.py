"""The tokens of two sides for the same requests: where they part first, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from mulo_runtime import AutoRegressive, Condition, Drafted, Event, MuloSD, Pipeline, Request
from mulo_runtime.defaults import default_method, default_sampling
from numpy.typing import NDArray

from mulo_tools.verify.edge import edge_distance
from mulo_tools.verify.side import Side

__all__ = ["Divergence", "TokenRow", "compare_tokens"]

Grid = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two sides part.

    Attributes:
        index: the first token that differs, in the order in which tokens are drawn.
        place: its row and column.
        drawn: what each side drew there.
        edge: by how much the number that drew it must be moved for a side to draw the other's token; None where no
            distance tried suffices, or where a model cannot be asked.
    """

    index: int
    place: tuple[int, int]
    drawn: tuple[int, int]
    edge: float | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One image's tokens of one model.

    Attributes:
        model: "drafter"; "target", which decodes plainly; or "mulo-sd", both together.
        seed: of the image.
        tokens: how many there are.
        differing: how many differ; all that follow a first difference may.
        divergence: where the sides part; None where they do not.
        judged: whether a difference counts. What MuLo-SD accepts may turn on the last digit of a probability, which no
            single draw tells, so that its images are shown and not judged.
        allowed: distance from an edge within which a difference is rounding.
    """

    model: str
    seed: int
    tokens: int
    differing: int
    divergence: Divergence | None
    judged: bool
    allowed: float

    @property
    def within(self) -> bool:
        """Whether the sides agree, but for rounding."""
        if self.divergence is None or not self.judged:
            return True
        return self.divergence.edge is not None and self.divergence.edge <= self.allowed


def compare_tokens(a: Side, b: Side, condition: Condition, seeds: Sequence[int], allowed: float) -> Iterator[TokenRow]:
    """Have both sides draft, decode plainly and decode by MuLo-SD, by the first side's defaults.

    Drafts are drawn serially, whatever the defaults, so that the first difference in raster order is the first drawn.

    Args:
        a: one side.
        b: the other.
        condition: what the images show.
        seeds: of the images.
        allowed: distance from an edge of the distribution within which two draws may differ.
    """
    sampling = default_sampling(a.bundle.manifest)
    method = default_method(a.bundle.manifest).with_changes(draft="image", draft_window=0)
    pipelines = [_pipeline(side, method) for side in (a, b)]
    for seed in seeds:
        request = Request(condition, seed, method, sampling)
        drafts, images = zip(*(_drafted(pipeline, request) for pipeline in pipelines), strict=True)
        plain = [
            pipeline.generate(Request(condition, seed, AutoRegressive(), sampling)).tokens for pipeline in pipelines
        ]
        yield _row("drafter", (a, b), request, drafts, allowed)
        yield _row("target", (a, b), request, plain, allowed)
        yield _row("mulo-sd", (a, b), request, images, allowed)


def _pipeline(side: Side, method: MuloSD) -> Pipeline:
    """A pipeline over engines that stay the side's own: it is not closed."""
    return Pipeline(side.bundle, dict(side.engines), methods=[method], new_stream=side.new_stream)


def _drafted(pipeline: Pipeline, request: Request) -> tuple[Grid, Grid]:
    """The draft and the image."""
    drafts = list[Grid]()

    def keep(event: Event) -> None:
        if isinstance(event, Drafted):
            drafts.append(event.tokens[0].copy())

    image = pipeline.generate(request, on_event=keep).tokens
    return drafts[-1], image


def _row(model: str, sides: tuple[Side, Side], request: Request, grids: Sequence[Grid], allowed: float) -> TokenRow:
    first, second = (grid.ravel() for grid in grids)
    apart = np.flatnonzero(first != second)
    judged, divergence = model != "mulo-sd", None
    if len(apart):
        index, cols = int(apart[0]), grids[0].shape[1]
        drawn = int(first[index]), int(second[index])
        edge = _edge(sides, model, request, first[:index], drawn) if judged else None
        divergence = Divergence(index, divmod(index, cols), drawn, edge)
    assert request.seed is not None
    return TokenRow(model, request.seed, len(first), len(apart), divergence, judged, allowed)


def _edge(sides: tuple[Side, Side], model: str, request: Request, tokens: Grid, drawn: tuple[int, int]) -> float | None:
    """The least distance by which either side draws the other's token."""
    pairs = zip(sides, reversed(drawn), strict=True)
    found = (edge_distance(side, model, request, tokens, other) for side, other in pairs)
    return min((distance for distance in found if distance is not None), default=None)
