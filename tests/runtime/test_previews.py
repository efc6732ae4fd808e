"""Which events of an image are shown when only a few may be."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_runtime.events import Drafted, Event, RowsDone, Verified
from mulo_runtime.previews import PreviewBudget

ROWS = 8
NOTHING = np.zeros((1, 0, 0), np.int64)
ONE_ROUND: list[Event] = [
    Drafted(4, NOTHING),
    Verified(8, NOTHING, NOTHING.astype(np.uint8), 1.0),
    RowsDone(8, NOTHING, 1.0),
]
PLAIN: list[Event] = [RowsDone(row, NOTHING) for row in range(1, ROWS + 1)]


def shown(events: list[Event], previews: int | None) -> list[int]:
    budget = PreviewBudget(ROWS, previews)
    return [number for number, event in enumerate(events) if budget.takes(event)]


@pytest.mark.parametrize(
    ("previews", "expected"), [(None, [0, 1, 2]), (0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (9, [0, 1, 2])]
)
def test_the_draft_comes_first_then_what_was_verified(previews: int | None, expected: list[int]) -> None:
    assert shown(ONE_ROUND, previews) == expected


@pytest.mark.parametrize(("previews", "rows"), [(1, [4]), (2, [3, 6]), (3, [2, 4, 6]), (8, [1, 2, 3, 4, 5, 6, 7, 8])])
def test_rows_are_shown_at_even_distances(previews: int, rows: list[int]) -> None:
    assert [number + 1 for number in shown(PLAIN, previews)] == rows


def test_of_a_draft_by_rows_only_the_first_is_shown() -> None:
    rounds: list[Event] = [event for _ in range(4) for event in (Drafted(1, NOTHING), RowsDone(2, NOTHING))]
    assert shown(rounds, 2)[0] == 0
    assert all(number % 2 for number in shown(rounds, 2)[1:])
