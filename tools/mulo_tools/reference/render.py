"""Scenes to pixels: one 128 px render per scene, averaged down so that all resolutions show the same picture."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mulo_tools.reference.scenes import Scene

RENDER_PX = 128
SUPERSAMPLING = 3
TEXTURE_DECAY = 0.75
"""Exponent of the 1/f texture: each octave of grid g has standard deviation proportional to g ** -TEXTURE_DECAY."""
BACKGROUND_TEXTURE = 0.02
"""Standard deviation (of the 0..1 range) of the coarsest octave, a 4 x 4 grid, on backgrounds."""
THING_TEXTURE = 0.015
"""The same on things, from an 8 x 8 grid on, relative to the colour."""

COLOUR_RGB = {
    "red": (224, 36, 36),
    "yellow": (236, 206, 24),
    "green": (34, 168, 50),
    "cyan": (24, 192, 206),
    "blue": (38, 72, 226),
    "purple": (178, 40, 206),
}
BACKGROUND_RGB = {"dark": (46, 48, 58), "grey": (128, 127, 124), "light": (222, 219, 211)}

LATTICE = 4 / RENDER_PX
"""Step between the places of things, as a fraction of the side: one token of the finest resolution.

An outline meets the token grid in few ways, so that a small model learns shapes soon; what stays ambiguous is texture.
"""
SHIFTS, LONE_SHIFTS = 1, 2
"""Most steps between a thing and the centre of its quadrant, or of the picture when it is alone."""
DIAMETERS, LONE_DIAMETERS = (0.36, 0.41), (0.46, 0.56)
"""Sizes of things, as fractions of the side."""
QUADRANTS = ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75))
"""Centres (x, y) of the four places of things that are not alone, as fractions of the side."""

Pixels = NDArray[np.uint8]
"""RGB picture, [height, width, 3]."""
Values = NDArray[np.floating]
"""Numbers per pixel."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a thing is: centre and diameter as fractions of the side."""

    x: float
    y: float
    diameter: float


def render(scene: Scene, rng: np.random.Generator, px: int = RENDER_PX) -> Pixels:
    """Draw the scene, [px, px, 3]; place, size, shading and texture come from `rng`."""
    canvas = _background(scene.background, rng, px)
    for thing, placement in zip(scene.things, place_things(scene, rng), strict=True):
        coverage = draw_mask(thing.shape, placement, px)[..., None]
        canvas = canvas * (1 - coverage) + coverage * _surface(thing.colour, placement, rng, px)
    return np.asarray(np.clip(canvas, 0, 1) * 255 + 0.5, np.uint8)


def downscale(image: Pixels, px: int) -> Pixels:
    """Average the picture down to [px, px, 3]; px divides the side."""
    factor = image.shape[0] // px
    return np.asarray(Image.fromarray(image).reduce(factor)) if factor > 1 else image


def render_seed(scene: Scene, seed: int) -> Pixels:
    """The picture of a scene that was sampled from `seed`: same seed, same picture."""
    return render(scene, np.random.default_rng((seed, 1)))


def place_things(scene: Scene, rng: np.random.Generator) -> list[Placement]:
    """Choose a place for every thing: a lone one near the centre, others near distinct quadrant centres."""
    count = len(scene.things)
    if count == 1:
        return [_near((0.5, 0.5), rng.choice(LONE_DIAMETERS), LONE_SHIFTS, rng)]
    diameters = rng.choice(DIAMETERS, count)
    if scene.kind == "counting":
        diameters[:] = diameters[0]
    return [
        _near(QUADRANTS[quadrant], diameter, SHIFTS, rng)
        for quadrant, diameter in zip(_quadrants(scene, rng), diameters, strict=True)
    ]


def outline(shape: str) -> Values:
    """Corner points [n, 2] (x, y) of the shape about the origin, about one unit in radius."""
    if shape == "circle":
        turn = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        return np.stack([np.cos(turn), np.sin(turn)], 1)
    if shape == "square":
        return np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * 0.88
    if shape == "triangle":
        return np.array([[0, -0.95], [1.0, 0.85], [-1.0, 0.85]])
    arm = 0.34
    corner = np.array([[-arm, -1], [arm, -1], [arm, -arm]])
    turns = [np.array([[0, 1], [-1, 0]]), np.eye(2)]
    quarter = turns[0]
    return np.concatenate([corner @ np.linalg.matrix_power(quarter, k) for k in range(4)])


def draw_mask(shape: str, placement: Placement, px: int) -> Values:
    """Antialiased coverage [px, px] in 0..1 of a shape."""
    side = px * SUPERSAMPLING
    centre = np.array([placement.x, placement.y])
    points = (outline(shape) * placement.diameter / 2 + centre) * side
    mask = Image.new("L", (side, side), 0)
    ImageDraw.Draw(mask).polygon([(float(x), float(y)) for x, y in points], fill=255)
    return np.asarray(mask.reduce(SUPERSAMPLING), np.float32) / 255


def value_noise(rng: np.random.Generator, px: int, deviation: float, coarsest: int) -> Values:
    """1/f value noise [px, px]: octaves of grids coarsest, 2 coarsest, ... px / 2, interpolated bicubically."""
    noise = np.zeros((px, px), np.float32)
    grid = coarsest
    while grid <= px // 2:
        scale = deviation * (coarsest / grid) ** TEXTURE_DECAY
        values = Image.fromarray(rng.standard_normal((grid + 2, grid + 2), dtype=np.float32) * np.float32(scale))
        box = (0.5, 0.5, grid + 1.5, grid + 1.5)
        noise += np.asarray(values.resize((px, px), Image.Resampling.BICUBIC, box=box))
        grid *= 2
    return noise


def _quadrants(scene: Scene, rng: np.random.Generator) -> list[int]:
    if scene.relation is None:
        # Captions name things in reading order: which comes first is nothing that a model has to guess.
        return sorted(int(quadrant) for quadrant in rng.permutation(4)[: len(scene.things)])
    line = int(rng.integers(2))
    pair = [2 * line, 2 * line + 1] if scene.relation in ("left of", "right of") else [line, line + 2]
    return pair if scene.relation in ("left of", "above") else pair[::-1]


def _near(centre: tuple[float, float], diameter: float, shifts: int, rng: np.random.Generator) -> Placement:
    x, y = np.array(centre) + rng.integers(-shifts, shifts, 2, endpoint=True) * LATTICE
    return Placement(x, y, diameter)


def _axes(px: int) -> tuple[Values, Values]:
    axis = (np.arange(px, dtype=np.float32) + 0.5) / px
    return axis[None, :], axis[:, None]


def _background(name: str, rng: np.random.Generator, px: int) -> Values:
    x, y = _axes(px)
    angle = rng.uniform(0, 2 * np.pi)
    slope = (np.cos(angle) * (x - 0.5) + np.sin(angle) * (y - 0.5)) * rng.uniform(0.02, 0.08)
    relief = slope + value_noise(rng, px, BACKGROUND_TEXTURE, 4)
    return np.asarray(np.array(BACKGROUND_RGB[name]) / 255 + relief[..., None], np.float32)


def _surface(colour: str, placement: Placement, rng: np.random.Generator, px: int) -> Values:
    x, y = _axes(px)
    light = 1.0 - 0.3 * ((x - placement.x) * 0.5 + (y - placement.y)) + value_noise(rng, px, THING_TEXTURE, 8)
    return np.clip(np.array(COLOUR_RGB[colour], np.float32) / 255 * light[..., None], 0, 1)
