"""Pinned memory on the way down: what a stretch reads back, all of it there once its end was waited for."""

from __future__ import annotations

from typing import Any

from mulo_engines.stream import DeviceArray, Stream
from numpy.typing import NDArray

from mulo_runtime.device.staging import aligned
from mulo_runtime.meter import Meter

__all__ = ["Results"]


class Results:
    """What one stretch after the other reads back.

    Args:
        stream: whose device writes it.
        size: bytes that a stretch may read back, each array aligned.
        meter: where read-backs are booked.
    """

    def __init__(self, stream: Stream, size: int, meter: Meter) -> None:
        self._stream, self._meter = stream, meter
        self._memory, self._mark = stream.pinned(size), stream.mark()
        self._used = 0

    def read(self, source: DeviceArray) -> NDArray[Any]:
        """Have `source` copied to the host, to be looked at after `wait` and before the read that follows it."""
        place = self._memory[self._used : self._used + source.nbytes]
        result: NDArray[Any] = place.view(source.dtype).reshape(source.shape)
        self._stream.read(result, source)
        self._used += aligned(source.nbytes)
        return result

    def wait(self) -> None:
        """Wait for everything enqueued; the next `read` begins anew.

        Raises:
            EngineError: a pass failed.
        """
        self._used = 0
        self._mark.set()
        self._meter.read_back(self._mark)
