"""The slot table knows, at every moment, what a query may attend to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mulo_runtime.slots import SlotTable

SLOTS, POSITIONS = 24, 10

writes = st.tuples(
    st.just("write"),
    st.integers(0, SLOTS - POSITIONS),
    st.lists(st.integers(0, POSITIONS - 1), min_size=1, max_size=POSITIONS, unique=True),
)
retirements = st.tuples(
    st.just("retire"), st.just(0), st.lists(st.integers(0, POSITIONS - 1), min_size=1, max_size=4, unique=True)
)


def replayed(script: list[tuple[str, int, list[int]]]) -> list[int]:
    """The same bookkeeping, written as plainly as possible."""
    held = [POSITIONS] * SLOTS
    for action, start, positions in script:
        held = [POSITIONS if position in positions else position for position in held]
        if action == "write":
            held[start : start + len(positions)] = positions
    return held


@given(st.lists(st.one_of(writes, retirements), max_size=12))
def test_any_script_of_writes_and_retirements_leaves_what_a_plain_replay_leaves(
    script: list[tuple[str, int, list[int]]],
) -> None:
    table = SlotTable(1, SLOTS, POSITIONS)
    for action, start, positions in script:
        if action == "write" and len(positions) == 1:
            table.write_one(0, start, positions[0])
        elif action == "write":
            table.write(0, start, np.array(positions))
        else:
            table.retire(0, np.array(positions))
    assert table.held(0).tolist() == replayed(script)


def test_a_query_sees_live_slots_at_or_before_its_position_and_no_others() -> None:
    table = SlotTable(1, 6, POSITIONS)
    table.write(0, 0, np.array([0, 1, 4, 2]))
    table.retire(0, np.array([1]))
    mask = np.ones((2, 6), np.bool_)
    table.mask(0, np.array([2, 9]), mask)
    assert mask.astype(int).tolist() == [[1, 0, 0, 1, 0, 0], [1, 0, 1, 1, 0, 0]]
    table.mask_one(0, 2, mask[1])
    assert (mask[1] == mask[0]).all()


def test_a_position_that_is_written_again_leaves_a_stale_slot_behind() -> None:
    table = SlotTable(1, 6, POSITIONS)
    table.write(0, 0, np.array([0, 1, 2]))
    table.write(0, 3, np.array([1]))
    assert table.held(0).tolist() == [0, table.empty, 2, 1, table.empty, table.empty]


def test_images_have_slots_of_their_own_and_clearing_forgets_all() -> None:
    table = SlotTable(2, 4, POSITIONS)
    table.write(1, 0, np.array([3]))
    assert (table.held(0) == table.empty).all()
    table.clear()
    table.write(1, 1, np.array([3]))
    assert table.held(1).tolist() == [table.empty, 3, table.empty, table.empty]
