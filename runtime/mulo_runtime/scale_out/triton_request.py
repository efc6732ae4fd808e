"""From the tensors of a Triton request to a request of the pipeline."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from mulo_runtime.conditions import ClassId, Condition, Prompt, TaTokCodes, TextFeatures
from mulo_runtime.request import Request

__all__ = ["read_request"]


def read_request(inputs: Mapping[str, NDArray[Any]], microseconds: int) -> Request:
    """The request that `inputs` describe; a seed that is not among them is drawn.

    Args:
        inputs: by name, as config.pbtxt declares them.
        microseconds: Triton's timeout; 0 is none.

    Raises:
        RequestError: the seed is out of range.
        UnicodeDecodeError: the prompt is not UTF-8.
    """
    seed = inputs["seed"].item() if "seed" in inputs else secrets.randbits(63)
    return Request(_condition(inputs), seed, deadline=microseconds / 1e6 if microseconds else None)


def _condition(inputs: Mapping[str, NDArray[Any]]) -> Condition:
    if "prompt" in inputs:
        return Prompt(inputs["prompt"].item().decode())
    if "class_id" in inputs:
        return ClassId(inputs["class_id"].item())
    return TaTokCodes(inputs["codes"]) if "codes" in inputs else TextFeatures(inputs["features"], inputs["mask"])
