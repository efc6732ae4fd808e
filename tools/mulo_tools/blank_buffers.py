"""Buffers to time a graph on: of the right sizes, finite, and with indices that are always valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mulo_engines.cache_tensors import cache_pairs
from mulo_engines.engine import TensorSpec
from mulo_engines.signature import Signature
from numpy.typing import NDArray

__all__ = ["blank_buffers"]

_INDICES = frozenset(
    {"token_ids", "position_ids", "write_index", "logit_rows", "candidate_ids", "top_k", "class_id", "ta_tok_codes"}
)


def blank_buffers(signature: Signature, sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Buffers for every input and output of a graph; a cache is one buffer, updated in place.

    Args:
        signature: the graph's.
        sizes: the value of every symbol in it.
    """
    buffers = {spec.name: _blank(spec, sizes) for spec in signature.inputs}
    updated = {output: buffers[name] for name, output in cache_pairs(signature.inputs).items()}
    others = {spec.name: _blank(spec, sizes) for spec in signature.outputs if spec.name not in updated}
    return {**buffers, **updated, **others}


def _blank(spec: TensorSpec, sizes: Mapping[str, int]) -> NDArray[Any]:
    """Ones, in memory of their own as a used cache is; zeros for indices, of which zero is always a valid one."""
    shape = [size if isinstance(size, int) else sizes[size] for size in spec.shape]
    return np.zeros(shape, spec.dtype) if spec.name in _INDICES else np.ones(shape, spec.dtype)
