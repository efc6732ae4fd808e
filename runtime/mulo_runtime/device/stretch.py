"""A stretch on a device: the host enqueues pass after pass, and reads back once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mulo_engines.buckets import query_bucket
from numpy.typing import NDArray

from mulo_runtime.device.inputs import DeviceInputs
from mulo_runtime.device.passes import DevicePasses
from mulo_runtime.device.pixels import DeviceGridGraph
from mulo_runtime.model import CachedModel
from mulo_runtime.passes import Ids, PassInputs, check_finite
from mulo_runtime.pixels import GridGraph
from mulo_runtime.sampler import Draws
from mulo_runtime.stretch import Embeddings, Stretch, pack, span_queries
from mulo_runtime.waves import Wave

__all__ = ["DeviceStretch"]


class DeviceStretch(Stretch):
    """Passes that are enqueued as they are asked for, and done when the stretch is finished; see `Stretch`."""

    def __init__(
        self,
        model: CachedModel,
        tokens: Ids,
        uniforms: NDArray[np.float32],
        guard: Callable[[], None],
        passes: DevicePasses,
    ) -> None:
        super().__init__(model, tokens, uniforms, guard)
        self._passes = passes
        self._loaded = self._awaited = False
        self._read: list[tuple[Draws, Draws]] = []

    def begin(self, condition: Embeddings) -> None:
        """See `Stretch.begin`."""
        self._guard()
        self._load()
        self._enqueue(self._model.place_condition(*condition), condition[1].size, None, self._uniforms[:, :1])
        self._passes.log.pending = np.zeros((len(self._tokens), 1), np.int64)

    def wave(self, waves: Sequence[Wave]) -> None:
        """See `Stretch.wave`."""
        self._guard()
        self._load()
        images, log = np.arange(len(waves))[:, None], self._passes.log
        sources, targets = pack([wave.sources for wave in waves]), pack([wave.targets for wave in waves], log.spare)
        inputs = self._placed(waves, sources, query_bucket(targets.shape[1]))
        inputs.reads[:, : sources.shape[1]], inputs.reads[:, sources.shape[1] :] = sources, 0
        uniforms = self._uniforms[images, np.minimum(targets, log.spare - 1)]
        self._passes.enqueue(inputs, sum(len(wave.fed) for wave in waves), None, uniforms, from_log=True)
        padding = inputs.size.rows - targets.shape[1]
        log.pending = np.pad(targets, ((0, 0), (0, padding)), constant_values=log.spare) if padding else targets
        for image, wave in enumerate(waves):
            if len(wave.provisional):
                self._model.hide(image, wave.provisional)

    def verify_first(self, condition: Embeddings, draws: Draws) -> None:
        """See `Stretch.verify_first`."""
        self._guard()
        inputs = self._model.place_condition(*condition)
        self._enqueue(inputs, condition[1].size, self._tokens[:, :1], self._uniforms[:, :1], draws)

    def verify(self, span: range, drawn: int, draws: Draws) -> None:
        """See `Stretch.verify`."""
        self._guard()
        positions, counts = span_queries(len(self._tokens), span)
        fed, drawn_places = self._tokens[:, span.start : span.stop], slice(drawn, span.stop + 1)
        rows = query_bucket(span.stop + 1 - drawn)
        inputs = self._model.place(fed, positions, counts, rows, drawn - 1 - span.start)
        self._enqueue(inputs, sum(counts), self._tokens[:, drawn_places], self._uniforms[:, drawn_places], draws)

    def map(self, graph: GridGraph, start: int, stop: int, cols: int) -> NDArray[Any]:
        """See `Stretch.map`."""
        assert isinstance(graph, DeviceGridGraph)
        self._load()
        self._passes.settle()
        self._awaited = True
        return graph.enqueue(self._passes.log.rows(start, stop, cols))

    def finish(self) -> None:
        """See `Stretch.finish`."""
        results, log = self._passes.transfers.results, self._passes.log
        images = witness = None
        if self._loaded:
            self._passes.settle()
            images, witness = results.read(log.tokens), results.read(log.witness)
        if self._loaded or self._read or self._awaited:
            results.wait()
        if images is not None and witness is not None:
            check_finite(self._model.name, float(witness.sum()))
            self._tokens[...] = images[:, :-1]
        for draws, read in self._read:
            check_finite(self._model.name, float(np.add.reduce(read.probability, axis=None)))
            draws.fill(read)
        self._read.clear()

    def _load(self) -> None:
        """Have the images in the token log."""
        if not self._loaded:
            self._passes.load(self._tokens)
            self._loaded = True

    def _placed(self, waves: Sequence[Wave], sources: Ids, rows: int) -> DeviceInputs:
        """The inputs of a wave's pass; the tokens in them do not count, for the log's overwrite them."""
        if len(waves) == 1 and waves[0].lone:
            inputs = self._model.place_one(0, waves[0].fed.item())
        else:
            counts = [len(wave.fed) for wave in waves]
            inputs = self._model.place(sources, pack([wave.fed for wave in waves]), counts, rows)
        assert isinstance(inputs, DeviceInputs)
        return inputs

    def _enqueue(
        self,
        inputs: PassInputs,
        queries: int,
        candidates: Ids | None,
        uniforms: NDArray[np.float32],
        draws: Draws | None = None,
    ) -> None:
        """Enqueue a pass over tokens that the host knows; what it draws is read back into `draws`."""
        assert isinstance(inputs, DeviceInputs)
        made = self._passes.enqueue(inputs, queries, candidates, uniforms)
        if draws is not None:
            self._read.append((draws, self._passes.read(made).part(0, uniforms.shape[1])))
