from __future__ import annotations

import sys

import pytest
from mulo_engines.errors import EngineUnavailable
from mulo_engines.tensorrt.binding import BUILDERS, load_binding


def test_the_builder_that_needs_no_gpu_is_loaded_by_its_name() -> None:
    binding = load_binding("tensorrt-rtx")
    assert binding.version.startswith("1.")
    assert not binding.caches_timings


@pytest.mark.parametrize("backend", BUILDERS)
def test_a_library_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setitem(sys.modules, backend.replace("-", "_"), None)
    with pytest.raises(EngineUnavailable, match=rf"pip install 'mulo\[{backend}\]'"):
        load_binding(backend)


def test_an_unknown_builder_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(EngineUnavailable, match=r"(?s)found:    tensorflow.*expected: tensorrt, tensorrt-rtx"):
        load_binding("tensorflow")
