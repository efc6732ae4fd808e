"""What a driver's message means."""

from __future__ import annotations

import pytest
from mulo_engines.cuda.failures import failure, translated
from mulo_engines.errors import DeviceFailed, EngineError, OutOfMemory, ShapeError


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("CUDA_ERROR_OUT_OF_MEMORY: the API call failed because", OutOfMemory),
        ("cudaErrorUnknown", EngineError),
        ("CUDA_ERROR_ILLEGAL_ADDRESS: while executing a kernel", DeviceFailed),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", DeviceFailed),
        ("CUDA_ERROR_INVALID_VALUE: this indicates", EngineError),
        ("no code at all", EngineError),
    ],
)
def test_a_message_becomes_an_error_of_its_kind(message: str, kind: type[EngineError]) -> None:
    error = failure("the pass", message)
    assert type(error) is kind
    assert (error.what, error.found) == ("the pass", message)


def test_errors_that_are_typed_already_pass() -> None:
    with pytest.raises(ShapeError, match="mine"), translated("the pass"):
        raise ShapeError("mine")


def test_other_errors_are_translated_and_keep_their_cause() -> None:
    with pytest.raises(OutOfMemory) as raised, translated("the pass"):
        raise RuntimeError("CUDA_ERROR_OUT_OF_MEMORY")
    assert isinstance(raised.value.__cause__, RuntimeError)
