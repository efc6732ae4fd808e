"""An image whose every pass is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from mulo_runtime import Pass, Result
from mulo_tools.profile.loop import TimedImage

MakeImage = Callable[..., TimedImage]


@pytest.fixture
def make_image() -> MakeImage:
    """`make_image(("draft", "drafter", 0, 2), ..., seconds=10)`: passes by phase, engine, start and length."""

    def make(*passes: tuple[str, str, float, float], seconds: float) -> TimedImage:
        told = [Pass(phase, engine, 1, 100 + start, length) for phase, engine, start, length in passes]
        return TimedImage(100.0, seconds, told, cast(Result, cast(Any, None)))

    return make
