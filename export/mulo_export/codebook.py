"""The codebook on the unit sphere: what codes look up, and which codes lie near each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import CODEBOOK

__all__ = ["neighbour_table", "normalised_codebook"]

_SHORTEST = 1e-12
_ROWS = 128


def normalised_codebook(file: TensorFile) -> NDArray[np.float32]:
    """The code vectors [V, code_size] divided by their lengths.

    A checkpoint's own rows are not normalised; the model divides them at every lookup.
    """
    codebook = np.asarray(file.array(CODEBOOK), np.float32)
    lengths = np.linalg.norm(codebook, axis=1, keepdims=True)
    directions: NDArray[np.float32] = codebook / np.maximum(lengths, np.float32(_SHORTEST))
    return directions


def neighbour_table(codebook: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The `count` codes of largest cosine with every code [V, count], itself first, equal ones by their index.

    Args:
        codebook: normalised code vectors [V, code_size].
        count: at most V.
    """
    rows = range(0, len(codebook), _ROWS)
    return np.concatenate([_nearest(codebook, start, min(count, len(codebook))) for start in rows])


def _nearest(codebook: NDArray[np.float32], start: int, count: int) -> NDArray[np.int64]:
    cosines = codebook[start : start + _ROWS] @ codebook.T
    own = np.arange(len(cosines))
    cosines[own, start + own] = np.inf
    near = np.sort(np.argpartition(-cosines, count - 1, axis=1)[:, :count], axis=1)
    order = np.argsort(-np.take_along_axis(cosines, near, 1), axis=1, kind="stable")
    return np.take_along_axis(near, order, 1).astype(np.int64)
