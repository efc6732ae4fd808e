"""Seconds follow from rates: launches, then moving or computing, whichever is slower."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mulo_tools.predict.machine import Machine
from mulo_tools.predict.work import Step, Work

GPU = Machine(launch=1.0, bytes=10.0, cached=5.0, products=100.0, convolutions=50.0, elements=20.0)
CORE = replace(GPU, several=0.5, decided=100.0, copies=True, overlaps=False)


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        (Work(launches=3), 3),
        (Work(bytes=40, products=100), 4),
        (Work(bytes=40, cached=10), 6),
        (Work(bytes=10, products=400), 4),
        (Work(bytes=10, products=100, convolutions=100, elements=40), 5),
        (Work(copied=40, several=1, decided=1000), 0),
    ],
)
def test_a_gpu_moves_while_it_computes(work: Work, seconds: float) -> None:
    assert GPU.pass_seconds(work) == seconds


def test_a_core_does_one_after_the_other_and_copies_the_cache_for_several_queries() -> None:
    work = Work(launches=1, bytes=10, products=200, copied=20, several=1, decided=300)
    assert CORE.pass_seconds(work) == 1 + 1 + 2 + 4 + 0.5 + 3


def test_steps_follow_each_other() -> None:
    assert GPU.seconds([Step("target", 2.5, Work(launches=2)), Step("decoder", 1, Work(bytes=30))]) == 8


def test_a_paced_machine_takes_the_seconds_that_it_was_given() -> None:
    steps = [Step("target", 4, Work(launches=5, bytes=20))]
    assert GPU.paced(steps, 100.0).seconds(steps) == pytest.approx(100.0)
    assert GPU.paced(steps, 100.0).launch == pytest.approx((100 - 8) / 20)
