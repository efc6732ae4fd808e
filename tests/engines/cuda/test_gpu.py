"""What is asked of the driver, where there is one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from driver_tasks import copy_there_and_back, detect, free_bytes_beside
from mulo_engines.cuda import gpu
from mulo_engines.cuda.gpu import Gpu, detect_gpu
from mulo_engines.errors import EngineUnavailable
from stub_driver import OnStubDriver

MIB = 2**20


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_a_machine_without_a_driver_has_no_gpu() -> None:
    assert detect_gpu() is None


def test_without_a_library_that_asks_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "cuda", None)
    assert detect_gpu() is None


def test_a_backend_on_a_gpu_without_that_library_names_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    monkeypatch.delitem(sys.modules, "mulo_engines.cuda.stream", raising=False)
    with pytest.raises(EngineUnavailable, match=r"(?s)not installed.*mulo\[gpu\].*mulo\[tensorrt\]"):
        importlib.import_module("mulo_engines.cuda.stream")


def test_the_driver_says_what_the_gpu_is(on_stub_driver: OnStubDriver) -> None:
    found = on_stub_driver(detect, NAME="NVIDIA L4", CC="8.9", DRIVER=13020, MEM_MB=23034)
    assert found == Gpu("NVIDIA L4", "8.9", "13.2", 23034 * MIB)


def test_a_driver_without_a_gpu_has_none(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(detect, COUNT=0) is None


def test_what_is_allocated_is_not_free(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(free_bytes_beside, 3 * MIB, MEM_MB=1000) <= 997 * MIB


def test_what_is_copied_to_the_stub_comes_back(on_stub_driver: OnStubDriver) -> None:
    assert on_stub_driver(copy_there_and_back, [1.5, -2.0]) == [1.5, -2.0]
