"""The images' tokens on the device: what one pass draws is written there, and what the next one feeds is read there."""

from __future__ import annotations

import numpy as np
from mulo_engines.engine import Call, Engine
from mulo_engines.stream import DeviceArray, Stream

from mulo_runtime.device.sampler import DeviceSampler
from mulo_runtime.meter import Meter
from mulo_runtime.passes import Ids

__all__ = ["TokenLog"]


class TokenLog:
    """The tokens of one model's images and, behind them, a spare position for what is not kept.

    Drawn tokens stay where the sampler put them until the next pass wants tokens; `pending` says where they belong.

    Args:
        feed: the graph that writes and reads the log; not in place, so that there are two logs in turn.
        stream: where it lies.
        sampler: where drawn tokens lie.
        images: N.
        tokens: rows * cols.
        meter: where runs are booked.

    Attributes:
        spare: the position of what is not kept.
        pending: where each token drawn last belongs; [N, R].
    """

    def __init__(
        self, feed: Engine, stream: Stream, sampler: DeviceSampler, images: int, tokens: int, meter: Meter
    ) -> None:
        self._feed, self._stream, self._sampler, self._meter = feed, stream, sampler, meter
        self.spare = tokens
        self._images = images
        self._nothing = np.full((images, 1), tokens, np.int64)
        self.pending: Ids = self._nothing
        shape = (images, tokens + 1)
        self._logs = [stream.zeros(shape, np.dtype(np.int64)) for _ in range(2)]
        self._witnesses = [stream.zeros((images,), np.dtype(np.float32)) for _ in range(2)]
        self._side = 0
        token = np.dtype(np.int64)
        self._spare, self._unread = stream.zeros((images, 1), token), stream.zeros((images, 1), token)
        self._unfed = stream.zeros((2 * images, 1), token)
        stream.upload(self._spare, self._nothing)
        self._calls: dict[tuple[int, ...], Call] = {}

    @property
    def tokens(self) -> DeviceArray:
        """[N, rows * cols + 1]."""
        return self._logs[self._side]

    @property
    def witness(self) -> DeviceArray:
        """Finite as long as all logits were; [N]."""
        return self._witnesses[self._side]

    @property
    def settled(self) -> bool:
        """Whether everything drawn is in the log."""
        return self.pending is self._nothing

    def restart(self) -> None:
        """Forget what is pending, and what was not finite."""
        self.pending, self._side = self._nothing, 0
        self._stream.clear(self.witness)
        self._stream.clear(self._sampler.probability)

    def advance(self, writes: DeviceArray, reads: DeviceArray, token_ids: DeviceArray) -> None:
        """Write what is pending, and read what the next pass feeds.

        At once where there are as many of both, else one after the other: so there are few forms to be ready for.

        Args:
            writes: holds `pending`; [N, R].
            reads: the positions to read; [N, Q].
            token_ids: filled with the tokens there, for both halves; [2 N, Q].
        """
        if writes.shape == reads.shape:
            self._run(writes, reads, token_ids)
        else:
            self.settle(writes)
            self._run(self._spare, reads, token_ids)
        self.pending = self._nothing

    def settle(self, writes: DeviceArray) -> None:
        """Write what is pending; `writes` [N, R] holds it."""
        self._run(writes, self._unread, self._unfed)
        self.pending = self._nothing

    def rows(self, start: int, stop: int, cols: int) -> list[DeviceArray]:
        """Rows start .. stop-1 of each image, `cols` tokens each."""
        width = self._logs[0].shape[1]
        offsets = [(image * width + start * cols) * np.dtype(np.int64).itemsize for image in range(self._images)]
        return [self.tokens.part((stop - start, cols), offset=offset) for offset in offsets]

    def _run(self, writes: DeviceArray, reads: DeviceArray, token_ids: DeviceArray) -> None:
        key = (writes.address, writes.shape[1], reads.address, reads.shape[1], self._side)
        if key not in self._calls:
            self._calls[key] = self._bind(writes, reads, token_ids)
        self._meter.run(self._feed.name, self._calls[key], self._images * reads.shape[1])
        self._side = 1 - self._side

    def _bind(self, writes: DeviceArray, reads: DeviceArray, token_ids: DeviceArray) -> Call:
        drawn = self._sampler.draws(writes.shape[1])
        return self._feed.bind(
            {
                "token_log": self.tokens,
                "new_tokens": drawn.tokens,
                "write_positions": writes,
                "read_positions": reads,
                "probability": drawn.probability,
                "witness": self.witness,
                "token_log_out": self._logs[1 - self._side],
                "token_ids": token_ids,
                "witness_out": self._witnesses[1 - self._side],
            }
        )
