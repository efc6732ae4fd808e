"""The samplers of a lane: logits to tokens, and what the target thinks of the candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from mulo_engines.buckets import query_bucket
from mulo_engines.engine import Call, Engine
from numpy.typing import NDArray

from mulo_runtime.meter import Meter
from mulo_runtime.settings import Sampling

__all__ = ["Draws", "Sampler", "SamplerBuffers", "sampler_scalars", "set_scalars"]


class Draws(NamedTuple):
    """What the sampler made of R queries of N images.

    Attributes:
        tokens: the drawn tokens; [N, R].
        probability: the candidates' own probabilities; [N, R].
        mass: the candidates' pooled masses; [N, R].
        probs: the distributions that tokens are drawn from; [N, R, V]; None of a sampler that does not tell them.
    """

    tokens: NDArray[np.int64]
    probability: NDArray[np.float32]
    mass: NDArray[np.float32]
    probs: NDArray[np.float32] | None = None

    @classmethod
    def blank(cls, images: int, rows: int) -> Draws:
        """Arrays to be filled."""
        shape = (images, rows)
        return cls(np.empty(shape, np.int64), np.empty(shape, np.float32), np.empty(shape, np.float32))

    def part(self, start: int, stop: int) -> Draws:
        """Views of rows start .. stop-1."""
        place = slice(start, stop)
        probs = None if self.probs is None else self.probs[:, place]
        return Draws(self.tokens[:, place], self.probability[:, place], self.mass[:, place], probs)

    def fill(self, made: Draws) -> None:
        """Copy `made`, but for distributions, into these arrays."""
        self.tokens[...], self.probability[...], self.mass[...] = made[:3]


def sampler_scalars() -> dict[str, NDArray[Any]]:
    """The sampler's inputs of no dimensions, by name."""
    return {
        "guidance_scale": np.array(1, np.float32),
        "temperature": np.array(1, np.float32),
        "top_k": np.array(0, np.int64),
        "top_p": np.array(1, np.float32),
        "pool_k": np.array(1, np.int64),
    }


def set_scalars(scalars: Mapping[str, NDArray[Any]], sampling: Sampling, pool_k: int) -> None:
    """Set how tokens are drawn, and over how many codebook entries masses are pooled."""
    for name in ("guidance_scale", "temperature", "top_k", "top_p"):
        scalars[name][...] = getattr(sampling, name)
    scalars["pool_k"][...] = pool_k


class _Bound(NamedTuple):
    call: Call
    candidates: NDArray[np.int64]
    uniforms: NDArray[np.float32]
    draws: Draws


class SamplerBuffers:
    """What the samplers of a lane read and write; allocated once and shared, for one model runs at a time.

    Args:
        images: N.
        queries: the largest R.
        vocabulary: V.
        distributions: the largest R of a pass whose distributions are wanted; 0 where none are.

    Attributes:
        images: N.
        ids: tokens and candidates; [2, N * R].
        numbers: uniforms, probabilities and masses; [3, N * R].
    """

    def __init__(self, images: int, queries: int, vocabulary: int, distributions: int = 0) -> None:
        self.images, self._vocabulary = images, vocabulary
        self._logits = np.zeros(2 * images * queries * vocabulary, np.float32)
        self.ids = np.zeros((2, images * queries), np.int64)
        self.numbers = np.zeros((3, images * queries), np.float32)
        self._probs = np.zeros(images * query_bucket(distributions) * vocabulary if distributions else 0, np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self._logits.nbytes + self.ids.nbytes + self.numbers.nbytes + self._probs.nbytes

    def logits(self, batch: int, rows: int) -> NDArray[np.float32]:
        """Where a pass writes the logits of `rows` queries; [B, R, V]."""
        size = batch * rows * self._vocabulary
        return self._logits[:size].reshape(batch, rows, self._vocabulary)

    def probs(self, rows: int) -> NDArray[np.float32]:
        """Where a sampler writes the distributions of `rows` queries; [N, R, V]."""
        size = self.images * rows * self._vocabulary
        return self._probs[:size].reshape(self.images, rows, self._vocabulary)


class Sampler:
    """The sampler graph as one model of a lane uses it.

    Args:
        engine: the graph.
        buffers: where the model writes its logits.
        meter: where runs are booked.
    """

    def __init__(self, engine: Engine, buffers: SamplerBuffers, meter: Meter) -> None:
        self._engine, self._buffers, self._meter = engine, buffers, meter
        self._scalars = sampler_scalars()
        self._calls: dict[tuple[int, int], _Bound] = {}

    def configure(self, sampling: Sampling, pool_k: int) -> None:
        """Set how tokens are drawn from now on, and over how many codebook entries masses are pooled."""
        set_scalars(self._scalars, sampling, pool_k)

    def logits(self, batch: int, rows: int) -> NDArray[np.float32]:
        """Where a pass writes the logits of `rows` queries; [B, R, V]."""
        return self._buffers.logits(batch, rows)

    def draw(self, halves: int, candidates: NDArray[np.int64] | None, uniforms: NDArray[np.float32]) -> Draws:
        """Draw from the logits that the last pass wrote for the bucket that holds R = uniforms.shape[1] queries.

        The draws are views that the next draw overwrites.

        Args:
            halves: 2 with guidance, else 1.
            candidates: [N, R]; None where there are none, and probability and mass then mean nothing.
            uniforms: [N, R].
        """
        wanted = uniforms.shape[1]
        bound = self._bound(halves, query_bucket(wanted))
        if candidates is not None:
            bound.candidates[:, :wanted] = candidates
        bound.uniforms[:, :wanted] = uniforms
        self._meter.run(self._engine.name, bound.call, self._buffers.images * wanted)
        return bound.draws if bound.draws.tokens.shape[1] == wanted else bound.draws.part(0, wanted)

    def draw_one(self, halves: int, uniform: float) -> tuple[int, float]:
        """The token of a lone query of a lone image, and a probability that is finite if the logits are."""
        bound = self._bound(halves, 1)
        bound.uniforms.fill(uniform)
        self._meter.run(self._engine.name, bound.call, 1)
        return bound.draws.tokens.item(), bound.draws.probability.item()

    def _bound(self, halves: int, rows: int) -> _Bound:
        key = (halves, rows)
        if key not in self._calls:
            self._calls[key] = self._bind(halves, rows)
        return self._calls[key]

    def _bind(self, halves: int, rows: int) -> _Bound:
        images = self._buffers.images
        shape, size = (images, rows), images * rows
        tokens, candidates = (array[:size].reshape(shape) for array in self._buffers.ids)
        uniforms, probability, mass = (array[:size].reshape(shape) for array in self._buffers.numbers)
        probs = self._buffers.probs(rows) if "probs" in self._engine.outputs else None
        call = self._engine.bind(
            {
                "logits": self.logits(halves * images, rows),
                "candidate_ids": candidates,
                "uniforms": uniforms,
                **self._scalars,
                "token_ids": tokens,
                "candidate_prob": probability,
                "candidate_mass": mass,
                **({} if probs is None else {"probs": probs}),
            }
        )
        return _Bound(call, candidates, uniforms, Draws(tokens, probability, mass, probs))
