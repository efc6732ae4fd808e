"""The sampler of a lane on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from mulo_engines.engine import Call, Engine
from mulo_engines.stream import DeviceArray, Stream

from mulo_runtime.device.staging import ALIGNMENT
from mulo_runtime.sampler import sampler_scalars, set_scalars
from mulo_runtime.settings import Sampling

__all__ = ["DeviceDraws", "DeviceSampler", "Scalars"]


class DeviceDraws(NamedTuple):
    """What the sampler made of R queries of N images; see `Draws`."""

    tokens: DeviceArray
    probability: DeviceArray
    mass: DeviceArray


class Scalars:
    """How one model of a lane draws, on the device.

    Args:
        stream: where it lies.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        scalars = sampler_scalars()
        size = len(scalars) * ALIGNMENT
        self._host, self._device = stream.pinned(size), stream.zeros((size,), np.dtype(np.uint8))
        places = [(name, scalar.dtype, index * ALIGNMENT) for index, (name, scalar) in enumerate(scalars.items())]
        self._views = {name: np.ndarray((), dtype, self._host, offset) for name, dtype, offset in places}
        self.arrays = {name: self._device.part((), dtype=dtype, offset=offset) for name, dtype, offset in places}

    def configure(self, sampling: Sampling, pool_k: int) -> None:
        """Draw like this from now on; nothing that reads the scalars may be enqueued and not waited for."""
        set_scalars(self._views, sampling, pool_k)
        self._stream.upload(self._device, self._host)


class DeviceSampler:
    """What the models of a lane draw with, one at a time.

    Args:
        engine: the sampler graph.
        stream: where its buffers lie.
        images: N.
        queries: the largest R.
        vocabulary: V.

    Attributes:
        name: the engine's.
        probability: of the candidates drawn last, and of more behind them.
    """

    def __init__(self, engine: Engine, stream: Stream, images: int, queries: int, vocabulary: int) -> None:
        self._engine, self._images, self._vocabulary = engine, images, vocabulary
        self.name = engine.name
        number, token = np.dtype(np.float32), np.dtype(np.int64)
        self._logits = stream.zeros((2 * images * queries * vocabulary,), number)
        self._tokens = stream.zeros((images * queries,), token)
        self.probability = stream.zeros((images * queries,), number)
        self._mass = stream.zeros((images * queries,), number)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self._logits.nbytes + self._tokens.nbytes + self.probability.nbytes + self._mass.nbytes

    def logits(self, batch: int, rows: int) -> DeviceArray:
        """Where a pass writes the logits of `rows` queries; [B, R, V]."""
        return self._logits.part((batch, rows, self._vocabulary))

    def draws(self, rows: int) -> DeviceDraws:
        """Where the draws of `rows` queries lie."""
        shape = (self._images, rows)
        return DeviceDraws(self._tokens.part(shape), self.probability.part(shape), self._mass.part(shape))

    def bind(self, batch: int, candidates: DeviceArray, uniforms: DeviceArray, scalars: Scalars) -> Call:
        """The draw for `uniforms` [N, R] from the logits of as many queries."""
        rows = uniforms.shape[1]
        tokens, probability, mass = self.draws(rows)
        return self._engine.bind(
            {
                "logits": self.logits(batch, rows),
                "candidate_ids": candidates,
                "uniforms": uniforms,
                **scalars.arrays,
                "token_ids": tokens,
                "candidate_prob": probability,
                "candidate_mass": mass,
            }
        )
