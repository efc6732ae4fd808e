"""The classifier of scenes as a function of one picture; the only place where the bench needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mulo_tools.reference.render import Pixels

__all__ = ["classifier_features"]


def classifier_features() -> Callable[[Pixels], NDArray[np.float32]]:
    """Load the shipped classifier; returns what makes 64 features of a picture [height, width, 3].

    Raises:
        ModuleNotFoundError: PyTorch is not installed.
    """
    from mulo_tools.reference.classifier import load_classifier, picture_features

    model = load_classifier()

    def describe(picture: Pixels) -> NDArray[np.float32]:
        return np.asarray(picture_features(model, picture[None])[0])

    return describe
