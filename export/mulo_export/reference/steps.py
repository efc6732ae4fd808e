"""Steps of a transformer graph whose queries go through its layers together, so that each weight is read once.

A step's inputs have the graph's names. Of B sequences, all steps together have `queries` Q in the order of the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Inputs", "embedded", "joined", "linear", "logits", "parted"]

Floats = NDArray[np.float32]
Inputs = Mapping[str, NDArray[Any]]


def joined(steps: Sequence[Inputs], name: str) -> NDArray[Any]:
    """The input `name` [B, T, ...] of all steps as one [B, Q, ...]."""
    return np.concatenate([step[name] for step in steps], axis=1)


def parted(x: Floats, steps: Sequence[Inputs], axis: int = 1) -> list[Floats]:
    """What belongs to each step of an array that has the queries of all steps along `axis`."""
    ends = np.cumsum([step["position_ids"].shape[1] for step in steps])
    return np.split(x, ends[:-1], axis=axis)


def embedded(steps: Sequence[Inputs], table: NDArray[Any]) -> Floats:
    """What the queries feed [B, Q, D]: in each step its condition, then its tokens."""
    parts = [part for step in steps for part in (step["cond_embeds"], table[step["token_ids"]])]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def logits(hidden: Floats, steps: Sequence[Inputs], projection: Floats) -> list[Floats]:
    """The logits [B, R, V] of each step for those of its queries that it names; `hidden` [B, Q, D] is normed."""
    pairs = zip(parted(hidden, steps), steps, strict=True)
    rows = [np.take_along_axis(own, step["logit_rows"][:, :, None], axis=1) for own, step in pairs]
    ends = np.cumsum([own.shape[1] for own in rows])
    return np.split(linear(np.concatenate(rows, axis=1), projection), ends[:-1], axis=1)


def linear(x: Floats, weight: Floats) -> Floats:
    """[..., in] times a weight [out, in], which is read once whatever the leading dimensions."""
    product: Floats = x.reshape(-1, x.shape[-1]) @ weight.T
    return product.reshape(*x.shape[:-1], len(weight))
