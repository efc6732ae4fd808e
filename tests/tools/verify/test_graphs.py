"""Graphs are compared on the same inputs, and the worst tensor is told with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from mulo_tools.verify.graph_inputs import COMPARED_GRAPHS
from mulo_tools.verify.graphs import compare_graph
from mulo_tools.verify.side import Side
from numpy.typing import NDArray

MakeSide = Callable[..., Side]
Buffers = Mapping[str, NDArray[Any]]


def adding(tensor: str, place: tuple[int, ...], amount: float) -> Callable[[Buffers], None]:
    def change(buffers: Buffers) -> None:
        # A cache would carry what is added to it into the next pass.
        if "cache" in tensor and buffers["write_index"][0]:
            return
        buffers[tensor][place] += buffers[tensor].dtype.type(amount)

    return change


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("graph", COMPARED_GRAPHS)
def test_a_graph_agrees_with_itself_exactly(make_side: MakeSide, graph: str, text: bool) -> None:
    difference = compare_graph(make_side(text=text), make_side(text=text), graph, seed=1)
    assert (difference.graph, difference.value) == (graph, 0)
    assert difference.within


@pytest.mark.parametrize(
    ("graph", "tensor", "place"),
    [
        ("target", "logits", (1, 0, 7)),
        ("drafter", "v_cache_out.1", (0, 1, 3, 5)),
        ("target.condition", "cond_embeds", (1, 2, 3)),
        ("sampler", "candidate_mass", (0, 3)),
        ("decoder", "witness", (0,)),
    ],
)
def test_the_worst_tensor_is_told_with_its_place_and_both_values(
    make_side: MakeSide, graph: str, tensor: str, place: tuple[int, ...]
) -> None:
    other = make_side(**{graph: (None, adding(tensor, place, 10))})
    difference = compare_graph(make_side(), other, graph, seed=1)
    assert (difference.tensor, difference.place, difference.metric) == (tensor, place, "relative error")
    assert difference.elements[1] - difference.elements[0] == pytest.approx(10, rel=1e-4)
    assert not difference.within


def test_a_difference_within_the_tolerance_of_the_precision_agrees(make_side: MakeSide) -> None:
    other = make_side(target=(None, adding("logits", (0, 0, 0), 1e-5)))
    difference = compare_graph(make_side(), other, "target", seed=1)
    assert 0 < difference.value < difference.tolerance == 1e-4
    assert difference.within


def test_a_cache_that_is_left_wrong_is_found(make_side: MakeSide) -> None:
    def forget(buffers: Buffers) -> None:
        if buffers["write_index"][0] == 0:
            buffers["v_cache_out.0"][:] = 0

    difference = compare_graph(make_side(), make_side(target=(None, forget)), "target", seed=1)
    assert (difference.tensor, difference.step) == ("v_cache_out.0", "prefill")
    assert not difference.within


def test_hidden_states_are_compared_in_all_their_width(make_side: MakeSide) -> None:
    other = make_side(target=(None, adding("hidden", (0, 0, 31), 10)))
    difference = compare_graph(make_side(), other, "target", seed=1)
    assert (difference.tensor, difference.place) == ("hidden", (0, 0, 31))
    assert not difference.within


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_agrees_with_nothing_but_itself(make_side: MakeSide, value: float) -> None:
    broken = make_side(target=(None, adding("logits", (0, 0, 0), value)))
    assert compare_graph(make_side(), broken, "target", seed=1).value == np.inf
    assert compare_graph(broken, broken, "target", seed=1).value == 0


def test_few_integers_may_differ_and_many_may_not(make_side: MakeSide) -> None:
    def shift(count: int) -> Callable[[Buffers], None]:
        def change(buffers: Buffers) -> None:
            buffers["candidate_ids"].reshape(-1)[:count] += 1

        return change

    for count, within in ((1, True), (30, False)):
        difference = compare_graph(make_side(), make_side(upsampler=(None, shift(count))), "upsampler", seed=1)
        assert difference.value == count / 64
        assert difference.within is within


def test_pixels_may_be_one_level_apart(make_side: MakeSide) -> None:
    for amount, within in ((1, True), (2, False)):

        def change(buffers: Buffers, amount: int = amount) -> None:
            buffers["image"][:] += np.uint8(amount)

        assert compare_graph(make_side(), make_side(decoder=(None, change)), "decoder", seed=1).within is within
