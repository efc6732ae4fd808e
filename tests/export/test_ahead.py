from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count, islice
from threading import active_count, get_ident

import pytest
from mulo_export.ahead import map_ahead


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(map_ahead(lambda number: number * number, range(1000))) == [number * number for number in range(1000)]


def test_items_are_taken_as_results_are_used_and_worked_on_in_other_threads() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in count():
            taken.append(number)
            yield number

    results = map_ahead(lambda _: get_ident(), items())
    assert get_ident() not in set(islice(results, 10))
    assert len(taken) <= 10 + 2 * (os.cpu_count() or 1)


def test_an_error_reaches_the_caller_in_its_turn_and_leaves_no_thread() -> None:
    threads, results = active_count(), map_ahead(lambda number: 1 // (3 - number), range(100))
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert active_count() == threads
