"""A contact sheet: labelled rows of labelled pictures, drawn with Pillow alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mulo_tools.drawing import PALE_INK, PAPER, Colour, font, write

__all__ = ["Panel", "Row", "Sheet", "draw_sheet"]

_PANEL = 256
_GAP = 20
_MARGIN = 36
_TITLE, _TEXT, _SMALL = 26, 17, 14


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A picture [height, width, 3] and a note under it."""

    image: NDArray[np.uint8]
    note: str


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Panels, one per column of the sheet, under a title."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """What is drawn.

    Attributes:
        title: the largest line.
        subtitle: the line under it.
        columns: what the panels of each column show.
        legend: colours and what they stand for; below the rows.
        rows: the rows.
    """

    title: str
    subtitle: str
    columns: Sequence[str]
    legend: Sequence[tuple[Colour, str]]
    rows: Sequence[Row]


def draw_sheet(sheet: Sheet) -> NDArray[np.uint8]:
    """Draw `sheet`; [height, width, 3]."""
    header = _MARGIN + _TITLE + 10 + _SMALL + 2 * _GAP + _TEXT + _GAP
    height = header + len(sheet.rows) * _row_height() + _TEXT + _MARGIN
    width = 2 * _MARGIN + len(sheet.columns) * (_PANEL + _GAP) - _GAP
    canvas = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(canvas)
    write(draw, (_MARGIN, _MARGIN), sheet.title, _TITLE)
    write(draw, (_MARGIN, _MARGIN + _TITLE + 10), sheet.subtitle, _SMALL, PALE_INK)
    for column, name in enumerate(sheet.columns):
        write(draw, (_left(column), header - _TEXT - _GAP), name, _TEXT)
    for index, row in enumerate(sheet.rows):
        _draw_row(canvas, draw, header + index * _row_height(), row)
    _draw_legend(draw, height - _MARGIN - _SMALL, sheet.legend)
    return np.asarray(canvas)


def _row_height() -> int:
    return _TEXT + 12 + _PANEL + 6 + _SMALL + 2 * _GAP


def _left(column: int) -> int:
    return _MARGIN + column * (_PANEL + _GAP)


def _draw_row(canvas: Image.Image, draw: ImageDraw.ImageDraw, top: int, row: Row) -> None:
    write(draw, (_MARGIN, top), row.title, _TEXT, PALE_INK)
    top += _TEXT + 12
    for column, panel in enumerate(row.panels):
        picture = Image.fromarray(panel.image).resize((_PANEL, _PANEL), Image.Resampling.NEAREST)
        canvas.paste(picture, (_left(column), top))
        write(draw, (_left(column), top + _PANEL + 6), panel.note, _SMALL, PALE_INK)


def _draw_legend(draw: ImageDraw.ImageDraw, top: int, legend: Sequence[tuple[Colour, str]]) -> None:
    left = _MARGIN
    for colour, text in legend:
        draw.rectangle((left, top + 1, left + _SMALL, top + 1 + _SMALL), fill=colour)
        write(draw, (left + _SMALL + 8, top), text, _SMALL, PALE_INK)
        left += _SMALL + 8 + round(font(_SMALL).getlength(text)) + 2 * _GAP
