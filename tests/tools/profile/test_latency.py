"""Times are taken cold once and warm as often as the budget allows."""

from __future__ import annotations

import time

from mulo_tools.profile.latency import Budget, Latency, measure


def test_the_first_run_is_cold_and_all_later_ones_are_warm() -> None:
    runs = list[int]()
    latency = measure(lambda: runs.append(1), Budget(runs=7, seconds=60))
    assert (len(runs), len(latency.warm)) == (8, 7)


def test_a_slow_run_is_timed_three_times_and_no_more() -> None:
    latency = measure(lambda: time.sleep(0.01), Budget(runs=100, seconds=0.001))
    assert len(latency.warm) == 3
    assert min(latency.cold, *latency.warm) >= 0.01


def test_a_quantile_is_a_time_that_was_measured() -> None:
    latency = Latency(9.0, [4.0, 1.0, 3.0, 2.0])
    assert [latency.quantile(percent) for percent in (50, 95, 99)] == [3.0, 4.0, 4.0]
    assert Latency(9.0, [float(n) for n in range(101)]).quantile(95) == 95.0
