"""Real bundles, tiny and with random weights, that every package's tests may open but not change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bundles import tiny_bundle
from hypothesis import settings
from stub_driver import OnStubDriver, compile_stub_driver, run_task

# A shared machine may stall any example; how long one takes is not what these tests are about.
settings.register_profile("mulo", deadline=None)
settings.load_profile("mulo")

MakeBundle = Callable[..., Path]


@pytest.fixture(scope="session")
def shared_bundle(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """`shared_bundle(ratio=2 or 4, text=True or False)`: the same bundle, with a head, for all tests."""

    @cache
    def make(*, ratio: int = 2, text: bool = True) -> Path:
        return tiny_bundle(tmp_path_factory.mktemp(f"ratio-{ratio}"), ratio=ratio, text=text, eagle=True)

    return make


@pytest.fixture(scope="session")
def stub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stub in place of the CUDA driver; gcc, which compiles it, must be there."""
    return compile_stub_driver(tmp_path_factory.mktemp("stub-driver"))


@pytest.fixture
def on_stub_driver(stub_folder: Path, monkeypatch: pytest.MonkeyPatch) -> OnStubDriver:
    """`on_stub_driver(task, *arguments, **settings)`: what `task`, run in a process on the stub driver, returns.

    The task is a function of a module of tests/; `settings` are the stub's environment variables without `FAKECUDA_`.
    """

    def run(task: Callable[..., Any], *arguments: Any, **settings: object) -> Any:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(stub_folder))
        for name, value in settings.items():
            monkeypatch.setenv(f"FAKECUDA_{name}", str(value))
        return run_task(task, *arguments)

    return run
