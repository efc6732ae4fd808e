"""Whether two tokens drawn from the same context lie on the two sides of an edge of the distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from mulo_runtime import AutoRegressive, MuloSD, Request
from mulo_runtime.conditions import ConditionEncoder
from mulo_runtime.decoders.steps import verify_span
from mulo_runtime.lane import Lane
from mulo_runtime.noise import Purpose, uniforms
from mulo_runtime.sampler import Draws
from numpy.typing import NDArray

from mulo_tools.verify.side import Side

__all__ = ["DISTANCES", "edge_distance"]

DISTANCES: Sequence[float] = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""By how much the uniform number of a draw is moved, the least first."""
_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))
_QUERIES = 256

Ids = NDArray[np.int64]


def edge_distance(side: Side, model: str, request: Request, tokens: Ids, other: int) -> float | None:
    """The least of `DISTANCES` by which the number that draws a token must be moved for `side` to draw `other`.

    A draw is the first token whose cumulative probability exceeds its number: where two sides round differently, they
    part where a number lies at the edge between two tokens, and nowhere else.

    Args:
        side: draws.
        model: "target", which decodes plainly, or "drafter".
        request: the image; its seed, sampling and MuLo-SD are given.
        tokens: the tokens before the one in question; [k], k at least 0.
        other: what the other side drew.

    Returns:
        None where no distance suffices, so that the distributions themselves differ.
    """
    purpose = Purpose.TARGET if model == "target" else Purpose.DRAFT
    numbers = uniforms(request.seed or 0, purpose, len(tokens) + 1)
    moved = [number for step in DISTANCES for number in (numbers[-1] - step, numbers[-1] + step)]
    drawn = _draws(side, model, request, tokens, numbers, np.clip(moved, 0, _BELOW_ONE).astype(np.float32))
    first = next((index for index, token in enumerate(drawn) if token == other), None)
    return None if first is None else DISTANCES[first // 2]


def _draws(
    side: Side, model: str, request: Request, tokens: Ids, numbers: NDArray[np.float32], moved: NDArray[np.float32]
) -> Iterator[int]:
    """What is drawn behind `tokens` by each of the `moved` numbers."""
    lane, guided = _lane(side, request), _is_guided(model, request)
    encoder = ConditionEncoder(side.bundle, side.engines)
    embeds, visible = encoder.encode([request.condition], {model: guided})
    cached, start = lane.target if model == "target" else lane.drafter, len(tokens)
    row = np.append(tokens, 0)[None]  # The last is a candidate that nobody asks about.
    for number in moved:
        numbers[start] = number
        draws, first = Draws.blank(1, 1), Draws.blank(1, 1)
        stretch = lane.stretch(cached, row, numbers[None], _unguarded)
        stretch.verify_first((embeds[model], visible), first)
        verify_span(stretch, range(start), start, lane.queries, draws)
        stretch.finish()
        yield int((draws if start else first).tokens[0, 0])


def _lane(side: Side, request: Request) -> Lane:
    assert isinstance(request.method, MuloSD)
    assert request.sampling is not None
    stream = side.new_stream() if side.new_stream else None
    lane = Lane(side.engines, side.bundle.manifest, 1, _QUERIES, [AutoRegressive(), request.method], stream)
    lane.prepare(request.sampling, request.method)
    return lane


def _is_guided(model: str, request: Request) -> bool:
    """Whether a null half is decoded beside the conditional one; plain decoding guides whenever sampling does."""
    assert isinstance(request.method, MuloSD)
    assert request.sampling is not None
    return request.sampling.guided and (model == "target" or request.method.guided in ("both", "drafter"))


def _unguarded() -> None:
    """Nothing stops a comparison."""
