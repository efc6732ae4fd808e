"""The judge: what a picture shows, found by rules, and whether that is what the caption asked for.

No learned model is involved: colour comes from hue, shape from the overlap with drawn templates, the background from
the mean brightness outside the things. Ground-truth renders pass at 128 and 64 px.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from mulo_tools.reference.render import BACKGROUND_RGB, COLOUR_RGB, Pixels, Placement, Values, draw_mask
from mulo_tools.reference.scenes import COLOURS, SHAPES, Scene, Thing

MINIMUM_AREA = 0.015
"""Smallest part of the picture that counts as a thing."""
MINIMUM_CHROMA = 0.27
MINIMUM_SATURATION = 0.36
BACKGROUND_CHROMA = 0.18
MINIMUM_OVERLAP = 0.6
"""Least intersection over union with the best template."""
MINIMUM_OFFSET = 0.1
"""Least distance along the axis of a relation, as a fraction of the side."""
TEMPLATE_PX = 24
JUDGE_PX = 64
"""Smaller pictures are enlarged to this side, so that shapes have enough pixels to compare."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A thing found in a picture; centre as fractions of the side, overlap with the template of its shape."""

    thing: Thing
    x: float
    y: float
    overlap: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which demands of a scene a picture meets; `correct` is all of them."""

    count: bool
    colours: bool
    things: bool
    relation: bool
    background: bool

    @property
    def correct(self) -> bool:
        """Whether the picture shows exactly the scene."""
        return self.things and self.relation and self.background


def judge(image: Pixels, scene: Scene) -> Verdict:
    """Compare a picture [px, px, 3] with the scene it should show."""
    detections, background = detect(image)
    found = [detection.thing for detection in detections]
    solid = all(detection.overlap >= MINIMUM_OVERLAP for detection in detections)
    return Verdict(
        count=len(found) == len(scene.things),
        colours=Counter(thing.colour for thing in found) == Counter(thing.colour for thing in scene.things),
        things=solid and Counter(found) == Counter(scene.things),
        relation=_relation_holds(detections, scene),
        background=background == scene.background,
    )


def detect(image: Pixels) -> tuple[list[Detection], str]:
    """All things in a picture [px, px, 3] and the name of its background."""
    if image.shape[0] < JUDGE_PX:
        image = np.asarray(Image.fromarray(image).resize((JUDGE_PX, JUDGE_PX), Image.Resampling.BICUBIC))
    pixels = image.astype(np.float32) / 255
    hue, saturation, chroma = _hue_saturation_chroma(pixels)
    coloured = (chroma > MINIMUM_CHROMA) & (saturation > MINIMUM_SATURATION)
    nearest = np.abs((hue - _colour_hues()[:, None, None] + 180) % 360 - 180).argmin(0)
    detections = [
        detection
        for index, colour in enumerate(COLOURS)
        for detection in _detect_colour(coloured & (nearest == index), colour)
    ]
    return detections, _background(pixels, chroma)


def _detect_colour(mask: NDArray[np.bool_], colour: str) -> list[Detection]:
    labels, count = ndimage.label(ndimage.binary_opening(mask))
    regions = (labels == label for label in range(1, count + 1))
    return [_describe(region, colour) for region in regions if region.mean() >= MINIMUM_AREA]


def _describe(region: NDArray[np.bool_], colour: str) -> Detection:
    rows, columns = np.nonzero(region)
    shape, overlap = _best_shape(_normalise(region, rows, columns))
    side = region.shape[0]
    return Detection(Thing(colour, shape), float(columns.mean()) / side, float(rows.mean()) / side, overlap)


def _normalise(region: NDArray[np.bool_], rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Values:
    """Coverage of the region in the square around its bounding box, [TEMPLATE_PX, TEMPLATE_PX]."""
    top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
    side = max(bottom - top, right - left)
    scale = float(side) / (TEMPLATE_PX * 4)
    corner = (float(left + right - side) / 2, float(top + bottom - side) / 2)
    coverage = Image.fromarray(region.astype(np.float32)).transform(
        (TEMPLATE_PX * 4, TEMPLATE_PX * 4),
        Image.Transform.AFFINE,
        (scale, 0, corner[0], 0, scale, corner[1]),
        Image.Resampling.BILINEAR,
    )
    return np.asarray(coverage.reduce(4))


def _best_shape(coverage: Values) -> tuple[str, float]:
    overlaps = {
        shape: float(np.minimum(template, coverage).sum() / np.maximum(template, coverage).sum())
        for shape, template in _templates().items()
    }
    best = max(overlaps, key=overlaps.__getitem__)
    return best, overlaps[best]


@cache
def _templates() -> dict[str, Values]:
    """Coverage of each shape in the square around its bounding box, [TEMPLATE_PX, TEMPLATE_PX]."""
    masks = {shape: draw_mask(shape, Placement(0.5, 0.5, 0.9), TEMPLATE_PX * 8) > 0.5 for shape in SHAPES}
    return {shape: _normalise(mask, *np.nonzero(mask)) for shape, mask in masks.items()}


@cache
def _colour_hues() -> Values:
    rgb = np.array([COLOUR_RGB[colour] for colour in COLOURS], np.float32) / 255
    return _hue_saturation_chroma(rgb)[0]


def _hue_saturation_chroma(pixels: Values) -> tuple[Values, Values, Values]:
    """Hue in degrees, saturation and chroma (0..1) of RGB values [..., 3]."""
    red, green, blue = np.moveaxis(pixels, -1, 0)
    value = pixels.max(-1)
    chroma = value - pixels.min(-1)
    divisor = chroma + 1e-6
    hue = np.where(
        value == red,
        (green - blue) / divisor % 6,
        np.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    return hue * 60, chroma / (value + 1e-6), chroma


def _background(pixels: Values, chroma: Values) -> str:
    outside = ~ndimage.binary_dilation(chroma > BACKGROUND_CHROMA, iterations=2)
    brightness = pixels[outside].mean() if outside.any() else pixels.mean()
    return min(BACKGROUND_RGB, key=lambda name: abs(float(np.mean(BACKGROUND_RGB[name])) / 255 - brightness))


def _relation_holds(detections: list[Detection], scene: Scene) -> bool:
    if scene.relation is None:
        return True
    places = [[(d.x, d.y) for d in detections if d.thing.colour == thing.colour] for thing in scene.things]
    if any(len(found) != 1 for found in places):
        return False
    (first,), (second,) = places
    right, down = second[0] - first[0], second[1] - first[1]
    distance = {"left of": right, "right of": -right, "above": down, "below": -down}[scene.relation]
    return distance > MINIMUM_OFFSET
