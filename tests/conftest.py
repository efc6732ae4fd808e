"""Real bundles, tiny and with random weights, that every package's tests may open but not change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from bundles import tiny_bundle

MakeBundle = Callable[..., Path]


@pytest.fixture(scope="session")
def shared_bundle(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """`shared_bundle(ratio=2 or 4, text=True or False)`: the same bundle for all tests of a session."""

    @cache
    def make(*, ratio: int = 2, text: bool = True) -> Path:
        return tiny_bundle(tmp_path_factory.mktemp(f"ratio-{ratio}"), ratio=ratio, text=text)

    return make
