"""Causes of a failed build are told apart by what the builder says."""

from __future__ import annotations

import pytest
from mulo_engines.errors import BuildError, EngineError, OutOfMemory
from mulo_engines.tensorrt.messages import build_failure, lacks_fused_attention

NO_KERNEL = "Error Code 10: Internal Error (Could not find any implementation for node {ForeignNode[target...]}.)"
NO_MEMORY = "Error Code 2: OutOfMemory (Requested size was 8589934592 bytes.)"
CUDA_MEMORY = "Error Code 1: Cuda Runtime (out of memory)"
TOO_MANY = "Error Code 4: API Usage Error (ITopKLayer: K exceeds the maximum value allowed (3840).)"


@pytest.mark.parametrize(
    ("errors", "kind", "words"),
    [
        ([NO_KERNEL], BuildError, "no kernel for a part of the graph"),
        ([NO_MEMORY, NO_KERNEL], BuildError, "free GPU memory"),
        ([NO_MEMORY], OutOfMemory, "memory ran out"),
        ([CUDA_MEMORY], OutOfMemory, "8589934592|out of memory"),
        ([TOO_MANY], BuildError, "refuses the graph"),
        ([], BuildError, "nothing in the library's log"),
    ],
)
def test_a_failure_is_raised_as_what_it_is(errors: list[str], kind: type[EngineError], words: str) -> None:
    failure = build_failure("target", errors)
    assert type(failure) is kind
    assert str(failure).startswith("target: ")
    with pytest.raises(kind, match=words):
        raise failure


def test_only_a_failure_to_fuse_is_worth_a_second_try() -> None:
    assert lacks_fused_attention(["Myelin: Attention operation was not supported by a dedicated kernel."])
    assert not lacks_fused_attention([NO_KERNEL, NO_MEMORY, TOO_MANY])
