"""From the runtime's results and events to what is answered."""

from __future__ import annotations

import base64
import io
import time
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from mulo_runtime.previews import Preview
from mulo_runtime.request import DraftPreview, Result, VerifiedPreview
from mulo_runtime.service.schema import (
    CompletedEvent,
    Image,
    ImagesResponse,
    MuloFigures,
    MuloPreview,
    PartialEvent,
    Usage,
)
from mulo_runtime.settings import method_name, method_settings

__all__ = ["completed_event", "images_response", "partial_event"]


def images_response(results: list[Result], prompt: str, size: str) -> ImagesResponse:
    """The answer that holds `results`."""
    return ImagesResponse(
        created=int(time.time()),
        size=size,
        data=[Image(b64_json=_png(result.image), mulo=_figures(result)) for result in results],
        usage=Usage.of(len(prompt.split()), sum(result.tokens.size for result in results)),
    )


def partial_event(preview: Preview, index: int, size: str, total: int) -> PartialEvent:
    """The event that shows `preview`, the `index`-th of an image of `total` rows."""
    return PartialEvent(
        b64_json=_png(preview.image),
        created_at=int(time.time()),
        partial_image_index=index,
        size=size,
        mulo=_stage(preview, total),
    )


def completed_event(result: Result, prompt: str, size: str) -> CompletedEvent:
    """The event that ends a stream."""
    return CompletedEvent(
        b64_json=_png(result.image),
        created_at=int(time.time()),
        size=size,
        usage=Usage.of(len(prompt.split()), result.tokens.size),
        mulo=_figures(result),
    )


def _stage(preview: Preview, total: int) -> MuloPreview:
    if isinstance(preview, DraftPreview):
        return MuloPreview(stage="draft", rows=preview.rows, total=total, seconds=preview.seconds)
    accept_map = _digits(preview.accept_map) if isinstance(preview, VerifiedPreview) else None
    return MuloPreview(
        stage="rows" if accept_map is None else "verified",
        rows=preview.rows,
        total=preview.total,
        seconds=preview.seconds,
        accepted_share=preview.accepted_share,
        accept_map=accept_map,
    )


def _figures(result: Result) -> MuloFigures:
    statistics = result.statistics
    return MuloFigures(
        seed=result.seed,
        method=method_name(result.method),
        settings=method_settings(result.method),
        sampling=asdict(result.sampling),
        accept_map=_digits(result.accept_map),
        accepted_share=statistics.accepted_share,
        resampled_share=statistics.resampled_share,
        abandoned_share=statistics.abandoned_share,
        passes={name: usage.passes for name, usage in statistics.engines.items()},
        phases={name: usage.seconds for name, usage in statistics.phases.items()},
        seconds=statistics.seconds,
        queue_seconds=statistics.queue_seconds,
    )


def _digits(accept_map: NDArray[np.uint8]) -> list[str]:
    return ["".join(map(str, row)) for row in accept_map.tolist()]


def _png(image: NDArray[Any]) -> str:
    file = io.BytesIO()
    Picture.fromarray(image).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")
