"""Runs a stretch over an image: wave by wave, or over a span of consecutive tokens in as few passes as may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mulo_runtime.passes import Ids
from mulo_runtime.sampler import Draws
from mulo_runtime.stretch import Stretch
from mulo_runtime.waves import Wave

__all__ = ["extend_span", "run_waves", "verify_span"]

_NOTHING: Ids = np.empty(0, np.int64)
_IDLE = Wave(_NOTHING, _NOTHING, _NOTHING, _NOTHING)


def run_waves(stretch: Stretch, plans: Sequence[Sequence[Wave]]) -> None:
    """Draw what `plans` say, wave by wave; images whose plan is shorter are idle at the end."""
    for step in range(max(map(len, plans))):
        stretch.wave([plan[step] if step < len(plan) else _IDLE for plan in plans])


def verify_span(stretch: Stretch, span: range, drawn: int, queries: int, draws: Draws) -> None:
    """Feed the tokens of `span`, in passes of at most `queries`, and fill `draws` for tokens drawn .. span.stop.

    Tokens before `drawn` are fed and not drawn; see `Stretch.verify`.
    """
    for part in _parts(span, queries):
        first = max(part.start + 1, drawn)
        if first <= part.stop:
            stretch.verify(part, first, draws.part(first - drawn, part.stop + 1 - drawn))
        else:
            stretch.extend(part)


def extend_span(stretch: Stretch, span: range, queries: int) -> None:
    """Feed the tokens of `span` in passes of at most `queries`, and draw nothing."""
    for part in _parts(span, queries):
        stretch.extend(part)


def _parts(span: range, queries: int) -> Iterator[range]:
    return (range(start, min(start + queries, span.stop)) for start in range(span.start, span.stop, queries))
