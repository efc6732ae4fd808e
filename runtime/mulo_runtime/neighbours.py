"""The table of nearest codebook entries, for rules that look at each of them; graphs have their own copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mulo_engines.bundle import NEIGHBOUR_FILE, Bundle
from numpy.typing import NDArray
from safetensors.numpy import load_file

from mulo_runtime.acceptance.choose import neighbours_needed
from mulo_runtime.settings import Method

__all__ = ["read_neighbours"]


def read_neighbours(bundle: Bundle, methods: Sequence[Method]) -> NDArray[np.int32]:
    """Of every entry the nearest ones, itself left out, nearest first; [V, K], K = 0 where no method looks at them.

    Raises:
        BundleError: the bundle has no such table, for it was exported by an older mulo.
    """
    if not any(map(neighbours_needed, methods)):
        return np.zeros((bundle.manifest.vocabulary, 0), np.int32)
    table: NDArray[np.int32] = load_file(bundle.file(NEIGHBOUR_FILE))["neighbours"]
    return np.ascontiguousarray(table[:, 1:])
