"""What a bundle makes and a request may ask for: what a page or a client has to know."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import BaseModel

from mulo_runtime.pipeline import Pipeline
from mulo_runtime.service.image_requests import image_size
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.schema import Switch

__all__ = ["BundleCard", "describe_bundle"]


class BundleCard(BaseModel):
    """A bundle, told to clients.

    Attributes:
        kind: what images are conditioned on: "text", "class" or "ta_tok".
        classes: how many classes there are, for kind "class".
        words: the words that prompts may use, where they are few.
        examples: prompts to begin with.
        draft_rows, rows, cols: the drafter's rows, the target's grid.
        method, sampling: what the bundle recommends.
        images, deadline: the service's limits.
    """

    family: str
    kind: str
    classes: int | None
    words: list[str]
    examples: list[str]
    size: str
    draft_rows: int
    rows: int
    cols: int
    method: dict[str, Switch]
    sampling: dict[str, float | int]
    images: int
    deadline: float


def describe_bundle(pipeline: Pipeline, limits: Limits) -> BundleCard:
    """The card of `pipeline`'s bundle."""
    manifest = pipeline.bundle.manifest
    return BundleCard(
        family=manifest.family,
        kind=manifest.condition.kind,
        classes=manifest.condition.classes,
        words=list(pipeline.words),
        examples=list(manifest.prompt.examples) if manifest.prompt else [],
        size=image_size(manifest),
        draft_rows=manifest.drafter.rows,
        rows=manifest.target.rows,
        cols=manifest.target.cols,
        method=asdict(pipeline.method),
        sampling=asdict(pipeline.sampling),
        images=limits.images,
        deadline=limits.deadline,
    )
