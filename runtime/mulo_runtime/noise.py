"""The uniform numbers that draw the tokens: counter-based, so that a draw depends on its position alone."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Purpose", "uniforms"]


class Purpose(IntEnum):
    """What a uniform number is for; each purpose is a stream of its own."""

    TARGET = 0
    DRAFT = 1
    TRIAL = 2


def uniforms(seed: int, purpose: Purpose, tokens: int) -> NDArray[np.float32]:
    """One number in [0, 1) per image token, shape [tokens]; number i depends on (seed, purpose, i) and nothing else.

    Plain decoding and the resampling of MuLo-SD draw a position with the same number, so that where both see the same
    context they draw the same token.
    """
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, purpose], np.uint64)))
    return generator.random(tokens, dtype=np.float32)
