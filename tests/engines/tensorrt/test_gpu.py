"""What is asked of the driver, where there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mulo_engines.tensorrt import gpu
from mulo_engines.tensorrt.gpu import detect_gpu


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_a_machine_without_a_driver_has_no_gpu() -> None:
    assert detect_gpu() is None


def test_without_a_library_that_asks_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "cuda", None)
    assert detect_gpu() is None
