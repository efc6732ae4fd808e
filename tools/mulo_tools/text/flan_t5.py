"""Text features of LlamaGen: the last hidden states of flan-t5-xl, moved to the right end of the prefix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mulo_runtime import TextFeatures
from numpy.typing import NDArray

from mulo_tools.text.captions import clean_prompt
from mulo_tools.text.hub_models import TextEncoder

__all__ = ["LENGTH", "encode_features", "left_padded"]

LENGTH = 120
"""Positions of the published models' prefix."""


def encode_features(encoder: TextEncoder, prompts: Sequence[str], length: int = LENGTH) -> list[TextFeatures]:
    """The conditions of `prompts`, in one batch.

    Args:
        encoder: flan-t5-xl, for the published models.
        prompts: as users write them.
        length: positions of the model's prefix; what is longer is cut.
    """
    states, valid = encoder.encode([clean_prompt(prompt) for prompt in prompts], length)
    return [left_padded(features, mask) for features, mask in zip(states, valid, strict=True)]


def left_padded(features: NDArray[np.float32], valid: NDArray[np.bool_]) -> TextFeatures:
    """Move `features` [P, E], whose first positions are valid [P], to the last positions; the others become zero."""
    mask = valid[::-1].copy()
    return TextFeatures(np.roll(features, -int(valid.sum()), axis=0) * mask[:, None], mask)
