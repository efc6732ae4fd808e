"""Runs a stretch over an image: wave by wave, or over a span of consecutive tokens in as few passes as may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mulo_runtime.passes import Ids
from mulo_runtime.sampler import Draws
from mulo_runtime.stretch import Stretch
from mulo_runtime.waves import Wave

__all__ = ["extend_spans", "run_waves", "verify_span"]

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
    for start in range(span.start, span.stop, queries):
        part = range(start, min(start + queries, span.stop))
        first = max(part.start + 1, drawn)
        if first <= part.stop:
            stretch.verify(part, first, draws.part(first - drawn, part.stop + 1 - drawn))
        else:
            stretch.extend([part] * len(draws.tokens))


def extend_spans(stretch: Stretch, spans: Sequence[range], queries: int) -> None:
    """Feed the tokens of each image's own span, in passes of at most `queries`, and draw nothing."""
    for offset in range(0, max(map(len, spans)), queries):
        stretch.extend([span[offset : offset + queries] for span in spans])
