"""A double of the module that Triton's python_backend gives its models, with the parts that ours uses.

Names, arguments and behaviour follow the published interface: pb_stub.cc and the README of
triton-inference-server/python_backend. A request's tensors are gone once `execute` has returned, and a sender refuses
responses after the final flag, as in Triton.
"""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from threading import Event
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "Tensor",
    "TritonError",
    "TritonModelException",
]

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class TritonModelException(Exception):
    """What Triton raises where the interface is misused."""


class TritonError:
    """What went wrong with a request."""

    UNKNOWN: ClassVar[int] = 0
    INTERNAL: ClassVar[int] = 1
    NOT_FOUND: ClassVar[int] = 2
    INVALID_ARG: ClassVar[int] = 3
    UNAVAILABLE: ClassVar[int] = 4
    UNSUPPORTED: ClassVar[int] = 5
    ALREADY_EXISTS: ClassVar[int] = 6
    CANCELLED: ClassVar[int] = 7

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message, self._code = message, code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class Tensor:
    """A named array; strings are bytes in an array of objects on the way in, and str or bytes on the way out."""

    def __init__(self, name: str, array: NDArray[Any]) -> None:
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
            raise TritonModelException(f"tensor {name!r} is no contiguous numpy array")
        self._name, self._array = name, array.copy()

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> NDArray[Any]:
        return self._array

    def free(self) -> None:
        """Overwrite the values, as Triton reuses the memory when `execute` has returned."""
        self._array[...] = np.zeros(1, self._array.dtype)


class InferenceResponse:
    """One answer to a request: tensors, or an error."""

    def __init__(self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error


class InferenceResponseSender:
    """Takes the answers to one request; `arrived` has them, and None after the last."""

    def __init__(self) -> None:
        self.arrived: SimpleQueue[InferenceResponse | None] = SimpleQueue()
        self.cancelled = Event()
        self._final = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if self._final:
            raise TritonModelException("a response was sent after the final flag")
        if response is None and not flags:
            raise TritonModelException("neither a response nor a flag was sent")
        if response is not None:
            self.arrived.put(response)
        if flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL:
            self._final = True
            self.arrived.put(None)

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()


class InferenceRequest:
    """What a client asks for; `timeout` is in microseconds, 0 for none."""

    def __init__(self, inputs: Sequence[Tensor], timeout: int = 0) -> None:
        self._inputs, self._timeout = list(inputs), timeout
        self._sender = InferenceResponseSender()

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def timeout(self) -> int:
        return self._timeout

    def get_response_sender(self) -> InferenceResponseSender:
        return self._sender

    def is_cancelled(self) -> bool:
        return self._sender.is_cancelled()
