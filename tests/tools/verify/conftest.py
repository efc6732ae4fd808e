"""Sides of a comparison that compute something else where they are told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from conftest import MakeBundle
from mulo_engines.bundle import Bundle
from mulo_tools.verify.side import Side
from verify_sides import Change, ChangedBackend

MakeSide = Callable[..., Side]


@pytest.fixture
def make_side(shared_bundle: MakeBundle) -> Iterator[MakeSide]:
    """`make_side(target=(before, after))`: a side that is closed after the test."""
    with ExitStack() as opened:

        def make(*, text: bool = True, **changes: tuple[Change | None, Change | None]) -> Side:
            backend = ChangedBackend(changes)
            return opened.enter_context(Side.load("side", Bundle.open(shared_bundle(text=text)), backend))

        yield make
