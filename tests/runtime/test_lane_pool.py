"""A pool of lanes: who is served next, who is refused, and that no lane is ever lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mulo_engines.errors import Busy, Cancelled, DeadlineExceeded, PipelineClosed
from mulo_runtime.lane_pool import LanePool


class FakeLane:
    """Counts its resets; `reset` fails where it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.stepped, self.resets, self._error = 0.0, 0, error

    def reset(self) -> None:
        self.resets += 1
        if self._error is not None:
            raise self._error


def pool_of(lanes: int, queue: int) -> LanePool:
    return LanePool([FakeLane() for _ in range(lanes)], queue)  # type: ignore[misc]


def in_thread(work: Callable[[], object]) -> SimpleNamespace:
    """Start `work`; `error` holds what it raised, once `thread` has ended."""
    outcome = SimpleNamespace(error=None)

    def run() -> None:
        try:
            work()
        except Exception as error:
            outcome.error = error

    outcome.thread = threading.Thread(target=run)
    outcome.thread.start()
    return outcome


def holding(pool: LanePool, **limits: Any) -> None:
    with pool.lease(pool.enter(), **limits):
        pass


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_the_highest_priority_is_served_first_and_among_equals_who_came_first(priorities: list[int]) -> None:
    pool, served, threads = pool_of(1, 8), list[int](), []

    def serve(ticket: Any, number: int) -> None:
        with pool.lease(ticket):
            served.append(number)

    with pool.lease(pool.enter()):
        for number, priority in enumerate(priorities):
            ticket = pool.enter(priority)
            threads.append(threading.Thread(target=serve, args=(ticket, number)))
            threads[-1].start()
    for thread in threads:
        thread.join()
    assert served == sorted(range(len(priorities)), key=lambda number: -priorities[number])


@pytest.mark.parametrize(("lanes", "queue"), [(1, 0), (1, 2), (3, 0), (2, 3)])
def test_places_are_the_lanes_and_the_queue_and_the_next_is_refused_at_once(lanes: int, queue: int) -> None:
    pool = pool_of(lanes, queue)
    tickets = [pool.enter() for _ in range(lanes + queue)]
    before = monotonic()
    with pytest.raises(Busy, match=f"{lanes} lanes"):
        pool.enter()
    assert monotonic() - before < 0.1
    for ticket in tickets:
        with pool.lease(ticket):
            pass
    assert pool.load().free == lanes


def test_a_waiting_request_is_cancelled_and_gives_its_place_back() -> None:
    pool, signal = pool_of(1, 1), threading.Event()
    with pool.lease(pool.enter()):
        waiting = in_thread(lambda: holding(pool, cancel=signal))
        while not pool.load().waiting:
            pass
        signal.set()
        waiting.thread.join(2)
        assert isinstance(waiting.error, Cancelled)
        assert pool.load().waiting == 0


def test_a_waiting_request_keeps_its_deadline() -> None:
    pool = pool_of(1, 1)
    with pool.lease(pool.enter()), pytest.raises(DeadlineExceeded):
        holding(pool, until=monotonic() + 0.05)
    assert pool.load().waiting == 0


def test_a_lane_is_reset_only_after_a_request_that_did_not_end_well() -> None:
    lane = FakeLane()
    pool = LanePool([lane], 0)  # type: ignore[list-item]
    holding(pool)
    assert lane.resets == 0
    with pytest.raises(ZeroDivisionError), pool.lease(pool.enter()):
        raise ZeroDivisionError
    assert lane.resets == 1
    holding(pool)


def test_a_lane_whose_reset_fails_is_given_up_and_its_requests_error_is_the_one_that_is_raised() -> None:
    pool = LanePool([FakeLane(OSError("no such device")), FakeLane()], 0)  # type: ignore[list-item]
    with pool.lease(pool.enter()), pytest.raises(ZeroDivisionError), pool.lease(pool.enter()):
        raise ZeroDivisionError
    assert (pool.load().lanes, pool.load().free) == (1, 1)
    assert pool.failure is None
    pool.close()


def test_draining_refuses_the_new_and_finishes_the_accepted() -> None:
    pool, go = pool_of(1, 1), threading.Event()

    def serve(ticket: Any) -> None:
        with pool.lease(ticket):
            go.wait()

    accepted = [in_thread(partial(serve, pool.enter())) for _ in range(2)]
    assert not pool.drain(0.05)
    with pytest.raises(PipelineClosed):
        pool.enter()
    go.set()
    assert pool.drain(5)
    for request in accepted:
        request.thread.join()
        assert request.error is None


def test_closing_refuses_the_waiting_and_waits_for_the_running() -> None:
    pool = pool_of(1, 1)
    with pool.lease(pool.enter()):
        waiting = in_thread(lambda: holding(pool))
        while not pool.load().waiting:
            pass
        closing = in_thread(pool.close)
        waiting.thread.join()
        assert isinstance(waiting.error, PipelineClosed)
        assert closing.thread.is_alive()
    closing.thread.join()


def test_a_spare_lane_is_one_that_nobody_waits_for() -> None:
    pool = pool_of(2, 2)
    ticket = pool.enter()
    with pool.spare() as first, pool.spare() as second:
        assert first is not None
        assert second is None
    with pool.lease(ticket), pool.spare() as lane:
        assert lane is not None
    assert pool.load().free == 2


def test_the_load_tells_how_long_a_held_lane_has_been_silent() -> None:
    pool = pool_of(2, 0)
    assert pool.load().silence is None
    with pool.lease(pool.enter()) as lane:
        lane.stepped -= 30
        load = pool.load()
        assert (load.lanes, load.free) == (2, 1)
        assert load.silence == pytest.approx(30, abs=1)
