"""Makes the images of a set, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mulo_runtime import Method, Pipeline, Request, Sampling

from mulo_tools.offline.items import Item, item_condition
from mulo_tools.output import encode_png
from mulo_tools.record import describe_image, png_text

__all__ = ["Painter", "PainterSettings"]


@dataclass(frozen=True, slots=True)
class PainterSettings:
    """What is the same for all images of a set.

    Attributes:
        bundle: the bundle's folder, verified before.
        method: how images are decoded.
        sampling: how tokens are drawn.
        backend: what runs the graphs, as `Pipeline.open` takes it.
    """

    bundle: Path
    method: Method
    sampling: Sampling
    backend: Mapping[str, Any]


class Painter:
    """A pipeline of one lane that makes PNG files; close it after use."""

    def __init__(self, settings: PainterSettings) -> None:
        self._settings = settings
        self._pipeline = Pipeline.open(
            settings.bundle, verify=False, methods=[settings.method], **dict(settings.backend)
        )

    def paint(self, item: Item) -> bytes:
        """The PNG file of `item`, with all that made it as text.

        Raises:
            MuloError: the image could not be made.
        """
        bundle, settings = self._pipeline.bundle, self._settings
        condition = item_condition(item.line, bundle.manifest)
        result = self._pipeline.generate(Request(condition, item.seed, settings.method, settings.sampling))
        description = describe_image(bundle, condition, result, settings.backend["threads"])
        return encode_png(result.image, png_text(description))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipeline.close()
