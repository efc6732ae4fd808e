"""Runs a model over an image: wave by wave, or over a span of consecutive tokens at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.model import CachedModel
from mulo_runtime.sampler import Draws
from mulo_runtime.waves import Wave

__all__ = ["feed_span", "refeed", "run_waves"]

Ids = NDArray[np.int64]

_NOTHING = np.empty(0, np.int64)
_IDLE = Wave(_NOTHING, _NOTHING, _NOTHING, _NOTHING)


def run_waves(
    model: CachedModel,
    tokens: Ids,
    plans: Sequence[Sequence[Wave]],
    uniforms: NDArray[np.float32],
    guard: Callable[[], None],
) -> Iterator[int]:
    """Draw tokens in place, wave by wave.

    A lone token of a lone image, which is what plain decoding consists of, costs a third of what its wave would.

    Args:
        model: feeds and draws.
        tokens: the images; [N, rows * cols]; updated.
        plans: the waves of each image; images whose plan is shorter are idle at the end.
        uniforms: the number that draws each token; [N, rows * cols].
        guard: called before every pass; raises to stop.

    Yields:
        the wave that was run, counted from 0.
    """
    images = np.arange(len(plans))[:, None]
    for step in range(max(map(len, plans))):
        guard()
        if len(plans) == 1 and plans[0][step].lone:
            _step(model, tokens, plans[0][step], uniforms)
        else:
            _run_wave(model, tokens, images, [plan[step] if step < len(plan) else _IDLE for plan in plans], uniforms)
        yield step


def feed_span(
    model: CachedModel,
    tokens: Ids,
    span: range,
    first_drawn: int,
    uniforms: NDArray[np.float32],
    queries: int,
    guard: Callable[[], None],
) -> Iterator[tuple[int, Draws]]:
    """Feed the tokens of `span`, in passes of at most `queries`, and draw what follows each of them.

    Yields:
        the first token drawn and the draws, per pass; tokens before `first_drawn` are not drawn.
    """
    images = len(tokens)
    for begin in range(span.start, span.stop, queries):
        guard()
        end = min(begin + queries, span.stop)
        drawn = max(begin + 1, first_drawn)
        yield (
            drawn,
            model.feed(
                tokens=tokens[:, begin:end],
                positions=np.arange(begin, end)[None].repeat(images, 0),
                counts=[end - begin] * images,
                candidates=tokens[:, drawn : end + 1],
                uniforms=uniforms[:, drawn : end + 1],
                first=drawn - 1 - begin,
            ),
        )


def refeed(model: CachedModel, tokens: Ids, spans: Sequence[range], queries: int, guard: Callable[[], None]) -> None:
    """Feed the tokens of each image's own span once more, in passes of at most `queries`, and draw nothing."""
    nothing = np.empty((len(tokens), 0), np.float32)
    for offset in range(0, max(map(len, spans)), queries):
        guard()
        parts = [np.arange(span.start, span.stop)[offset : offset + queries] for span in spans]
        fed = _packed(parts)
        model.feed(
            tokens=np.take_along_axis(tokens, fed, axis=1),
            positions=fed,
            counts=[len(part) for part in parts],
            candidates=None,
            uniforms=nothing,
        )


def _step(model: CachedModel, tokens: Ids, wave: Wave, uniforms: NDArray[np.float32]) -> None:
    target = wave.targets.item()
    tokens[0, target] = model.step(tokens.item(wave.sources.item()), wave.fed.item(), uniforms.item(target))


def _run_wave(
    model: CachedModel, tokens: Ids, images: Ids, waves: Sequence[Wave], uniforms: NDArray[np.float32]
) -> None:
    targets = _packed([wave.targets for wave in waves])
    draws = model.feed(
        tokens=tokens[images, _packed([wave.sources for wave in waves])],
        positions=_packed([wave.fed for wave in waves]),
        counts=[len(wave.fed) for wave in waves],
        candidates=None,
        uniforms=uniforms[images, targets],
    )
    for image, wave in enumerate(waves):
        tokens[image, wave.targets] = draws.tokens[image, : len(wave.targets)]
        if len(wave.provisional):
            model.hide(image, wave.provisional)


def _packed(rows: Sequence[Ids]) -> Ids:
    """Rows of unequal length as one array, zeros behind the shorter ones."""
    if len(rows) == 1:
        return rows[0][None]
    packed = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for target, row in zip(packed, rows, strict=True):
        target[: len(row)] = row
    return packed
