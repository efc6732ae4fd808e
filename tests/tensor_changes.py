"""Damage to the tensors of a checkpoint, for tests of what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Change", "Tensors", "drop", "put"]

Tensors = dict[str, NDArray[Any]]
Change = Callable[[Tensors], None]


def drop(name: str) -> Change:
    """Take the tensor `name` away."""

    def change(tensors: Tensors) -> None:
        del tensors[name]

    return change


def put(name: str, *shape: int, dtype: str = "float32") -> Change:
    """Set the tensor `name` to zeros of another shape or type, or add it."""

    def change(tensors: Tensors) -> None:
        tensors[name] = np.zeros(shape, dtype)

    return change
