"""The contact sheet shows every panel in its place."""

from __future__ import annotations

import numpy as np
from mulo_tools.sheet import Panel, Row, Sheet, draw_sheet

COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 0, 255)]


def sheet(rows: int) -> Sheet:
    panels = [Panel(np.full((8, 8, 3), colour, np.uint8), "a note") for colour in COLOURS]
    content = [Row(f"row {index}", panels[2 * index : 2 * index + 2]) for index in range(rows)]
    return Sheet("A title", "and what it says", ("left", "right"), [((9, 9, 9), "nine")], content)


def places(image: np.ndarray, colour: tuple[int, int, int]) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero((image == colour).all(2))
    return rows.min(), rows.max(), columns.min(), columns.max()


def test_every_panel_is_a_square_of_the_same_size_in_its_row_and_column() -> None:
    image = draw_sheet(sheet(2))
    boxes = [places(image, colour) for colour in COLOURS]
    assert {(bottom - top, right - left) for top, bottom, left, right in boxes} == {(255, 255)}
    assert boxes[0][:2] == boxes[1][:2] < boxes[2][:2] == boxes[3][:2]
    assert boxes[0][2:] == boxes[2][2:] < boxes[1][2:] == boxes[3][2:]


def test_another_row_makes_the_sheet_higher_and_not_wider() -> None:
    one, two = draw_sheet(sheet(1)), draw_sheet(sheet(2))
    assert two.shape[0] > one.shape[0] + 256
    assert two.shape[1] == one.shape[1]


def test_the_legend_shows_its_colour() -> None:
    assert (draw_sheet(sheet(1)) == (9, 9, 9)).all(2).sum() > 100
