"""The graphs that methods need engines for."""

from __future__ import annotations

from collections.abc import Sequence

from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest

from mulo_runtime.lane import LANE_GRAPHS
from mulo_runtime.settings import Chain, Method, Sequential

__all__ = ["GRAPHS", "graphs_for"]

GRAPHS = (*LANE_GRAPHS, "drafter.condition", "target.condition")
"""The graphs that every pipeline needs engines for."""


def graphs_for(manifest: Manifest, methods: Sequence[Method]) -> tuple[str, ...]:
    """The graphs that a pipeline for these methods needs engines for.

    Raises:
        RequestError: a method drafts with the target's EAGLE head, and the bundle has none.
    """
    drafting = [method for method in methods if isinstance(method, Chain)]
    if drafting and manifest.eagle is None:
        raise RequestError(
            f"{type(drafting[0]).__name__} drafts with the target's EAGLE head, and the bundle has none",
            expected="a bundle with a graph 'eagle'",
            fix="export the bundle with --eagle, or choose a method without a head, such as sjd",
        )
    full = any(isinstance(method, Sequential) for method in methods)
    return (*GRAPHS, *(["sampler_full"] if full else []), *(["eagle"] if drafting else []))
