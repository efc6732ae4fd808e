"""Real bundles, tiny and with random weights, that every package's tests may open but not change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from bundles import tiny_bundle
from hypothesis import settings

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
