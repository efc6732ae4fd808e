"""The hand in which every picture of mulo is drawn: its colours and its type."""

from __future__ import annotations

from PIL import ImageDraw, ImageFont

__all__ = ["INK", "PALE_INK", "PAPER", "Colour", "font", "write"]

Colour = tuple[int, int, int]

PAPER: Colour = (250, 249, 246)
INK: Colour = (32, 34, 38)
PALE_INK: Colour = (112, 116, 122)


def write(draw: ImageDraw.ImageDraw, place: tuple[float, float], text: str, size: int, colour: Colour = INK) -> None:
    """Write `text`, `size` pixels high, with its left upper corner at `place`."""
    draw.text(place, text, fill=colour, font=font(size))


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The typeface that comes with Pillow."""
    return ImageFont.load_default(size)
