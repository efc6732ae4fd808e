"""A stretch: passes of one model whose schedule is known before the first of them runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mulo_runtime.model import CachedModel
from mulo_runtime.passes import Ids
from mulo_runtime.pixels import GridGraph
from mulo_runtime.sampler import Draws
from mulo_runtime.waves import Wave

__all__ = ["Embeddings", "HostStretch", "Stretch", "pack", "span_queries"]

Embeddings = tuple[NDArray[Any], NDArray[np.bool_]]
"""A model's condition [B, P, D], and which of its positions may be attended to [N, P]."""


class Stretch(ABC):
    """Passes of `model` over images; what they draw is there once `finish` returns.

    On a device tokens feed the next pass without the host, which reads back once, in `finish`.

    Args:
        model: feeds and draws.
        tokens: the images; [N, rows * cols]; updated.
        uniforms: the number that draws each token; [N, rows * cols].
        guard: called before every pass; raises to stop.
    """

    def __init__(
        self, model: CachedModel, tokens: Ids, uniforms: NDArray[np.float32], guard: Callable[[], None]
    ) -> None:
        self._model, self._tokens, self._uniforms, self._guard = model, tokens, uniforms, guard

    @abstractmethod
    def begin(self, condition: Embeddings) -> None:
        """Start new images and draw token 0 into them."""

    @abstractmethod
    def wave(self, waves: Sequence[Wave]) -> None:
        """Draw the targets of one wave of each image into the images."""

    @abstractmethod
    def verify_first(self, condition: Embeddings, draws: Draws) -> None:
        """Start new images and fill `draws` [N, 1]: what would be drawn for token 0, and what it is worth."""

    @abstractmethod
    def verify(self, span: range, drawn: int, draws: Draws) -> None:
        """Feed the tokens of `span` in one pass, and draw what follows each of them into `draws`, the images unchanged.

        Args:
            span: tokens to feed.
            drawn: the first token to draw; span.start+1 or later.
            draws: filled for tokens drawn .. span.stop: what would be drawn, and what the token there is worth;
                [N, span.stop + 1 - drawn].
        """

    def extend(self, spans: Sequence[range]) -> None:
        """Feed the tokens of each image's own span in one pass and draw nothing; one that has none is idle."""
        self._guard()
        positions = pack([np.arange(span.start, span.stop) for span in spans])
        tokens = np.take_along_axis(self._tokens, positions, axis=1)
        self._model.extend(tokens, positions, [len(span) for span in spans])

    @abstractmethod
    def map(self, graph: GridGraph, start: int, stop: int, cols: int) -> NDArray[Any]:
        """Run `graph` on rows start .. stop-1 of the images, `cols` tokens each; its output is there after `finish`."""

    @abstractmethod
    def finish(self) -> None:
        """Have everything done.

        Raises:
            NonFiniteError: logits were not finite.
            EngineError: a pass failed.
        """


class HostStretch(Stretch):
    """Passes that run one after the other as they are asked for."""

    def begin(self, condition: Embeddings) -> None:
        """See `Stretch.begin`."""
        self._guard()
        self._tokens[:, :1] = self._model.begin(*condition, None, self._uniforms[:, :1]).tokens

    def wave(self, waves: Sequence[Wave]) -> None:
        """See `Stretch.wave`; a lone token of a lone image costs a third of what its wave would."""
        self._guard()
        if len(waves) == 1 and waves[0].lone:
            self._step(waves[0])
        else:
            self._feed(waves)

    def verify_first(self, condition: Embeddings, draws: Draws) -> None:
        """See `Stretch.verify_first`."""
        self._guard()
        draws.fill(self._model.begin(*condition, self._tokens[:, :1], self._uniforms[:, :1]))

    def verify(self, span: range, drawn: int, draws: Draws) -> None:
        """See `Stretch.verify`."""
        self._guard()
        tokens, stop = self._tokens, span.stop + 1
        positions, counts = span_queries(len(tokens), span)
        made = self._model.feed(
            tokens=tokens[:, span.start : span.stop],
            positions=positions,
            counts=counts,
            candidates=tokens[:, drawn:stop],
            uniforms=self._uniforms[:, drawn:stop],
            first=drawn - 1 - span.start,
        )
        draws.fill(made)

    def map(self, graph: GridGraph, start: int, stop: int, cols: int) -> NDArray[Any]:
        """See `Stretch.map`."""
        return graph.run(self._tokens.reshape(len(self._tokens), -1, cols)[:, start:stop])

    def finish(self) -> None:
        """See `Stretch.finish`; everything is done already."""

    def _step(self, wave: Wave) -> None:
        tokens, target = self._tokens, wave.targets.item()
        fed, uniform = tokens.item(wave.sources.item()), self._uniforms.item(target)
        tokens[0, target] = self._model.step(fed, wave.fed.item(), uniform)

    def _feed(self, waves: Sequence[Wave]) -> None:
        images = np.arange(len(waves))[:, None]
        targets = pack([wave.targets for wave in waves])
        draws = self._model.feed(
            tokens=self._tokens[images, pack([wave.sources for wave in waves])],
            positions=pack([wave.fed for wave in waves]),
            counts=[len(wave.fed) for wave in waves],
            candidates=None,
            uniforms=self._uniforms[images, targets],
        )
        for image, wave in enumerate(waves):
            self._tokens[image, wave.targets] = draws.tokens[image, : len(wave.targets)]
            if len(wave.provisional):
                self._model.hide(image, wave.provisional)


def pack(rows: Sequence[Ids], fill: int = 0) -> Ids:
    """Rows of unequal length as one array, `fill` behind the shorter ones."""
    if len(rows) == 1:
        return rows[0][None]
    packed = np.full((len(rows), max(map(len, rows))), fill, np.int64)
    for target, row in zip(packed, rows, strict=True):
        target[: len(row)] = row
    return packed


def span_queries(images: int, span: range) -> tuple[Ids, list[int]]:
    """Positions and counts of the queries of `span` in every image."""
    return np.arange(span.start, span.stop)[None].repeat(images, 0), [len(span)] * images
