"""A stream of a GPU does what it promises, as far as a driver without a GPU can show: everything but kernels."""

from __future__ import annotations

import cuda_tasks
from mulo_engines.errors import DeviceFailed, EngineError, OutOfMemory
from stub_driver import OnStubDriver


def test_copies_go_up_down_and_across(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(cuda_tasks.copies) == {
        "zeros": [0, 0, 0, 0],
        "uploaded": [1, 2, 3, 4],
        "copied": [0, 0, 2, 3],
        "cleared": [0, 0, 3, 4],
        "nothing": [],
    }


def test_another_thread_may_take_over(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(cuda_tasks.from_another_thread) == [7, 8]


def test_work_is_captured_once_and_launched_without_being_enqueued_again(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(cuda_tasks.captures) == (True, 1)


def test_streams_may_share_a_queue_and_hold_the_scratch_memory_that_was_reserved(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(cuda_tasks.shares_a_queue) == (True, [100, 100, 7])


def test_memory_that_is_not_there_is_named_with_its_size(on_stub_driver: OnStubDriver) -> None:
    error = on_stub_driver(cuda_tasks.exhausts)
    assert isinstance(error, OutOfMemory)
    assert "8,388,608.0 MiB" in str(error)


def test_a_device_that_failed_has_failed_for_good(on_stub_driver: OnStubDriver) -> None:
    errors = on_stub_driver(cuda_tasks.breaks, BREAK=1)
    assert [type(error) for error in errors] == [DeviceFailed, DeviceFailed]
    assert "CUDA_ERROR_LAUNCH_FAILED" in str(errors[0])


def test_a_gpu_that_is_not_there_is_an_error(on_stub_driver: OnStubDriver) -> None:
    assert type(on_stub_driver(cuda_tasks.no_such_gpu)) is EngineError
