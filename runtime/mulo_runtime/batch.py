"""Requests that are decoded together."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from mulo_engines.errors import RequestError

from mulo_runtime.conditions import Condition
from mulo_runtime.request import Request
from mulo_runtime.settings import Fallback, Method, Sampling

__all__ = ["Batch", "make_batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """As many images as a lane decodes together, which differ in condition and seed alone.

    Attributes:
        conditions: what they show.
        seeds: their seeds.
        method: how they are decoded.
        sampling: how their tokens are drawn.
        fallback: when the method is given up and for what.
    """

    conditions: Sequence[Condition]
    seeds: Sequence[int]
    method: Method
    sampling: Sampling
    fallback: Fallback | None


def make_batch(requests: Sequence[Request], images: int, method: Method, sampling: Sampling) -> Batch:
    """A batch of `images` images: those of `requests`, filled up with copies of the last.

    Args:
        requests: at least one.
        images: N of the lane.
        method: what a request without a method takes.
        sampling: what a request without a sampling takes.

    Raises:
        RequestError: no request, more than the lane holds, or requests that cannot be decoded together.
    """
    if not 0 < len(requests) <= images:
        raise RequestError(
            "the batch does not fit a lane", found=f"{len(requests)} requests", expected=f"1 to {images}"
        )
    if len({(request.method, request.sampling, request.fallback) for request in requests}) > 1:
        raise RequestError("requests of one batch differ in method, sampling or fallback", fix="batch like with like")
    filled = [*requests, *[requests[-1]] * (images - len(requests))]
    return Batch(
        conditions=[request.condition for request in filled],
        seeds=[secrets.randbits(63) if request.seed is None else request.seed for request in filled],
        method=requests[0].method or method,
        sampling=requests[0].sampling or sampling,
        fallback=requests[0].fallback,
    )
