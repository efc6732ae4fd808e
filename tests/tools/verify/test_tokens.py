"""Tokens are compared one by one, and a draw at an edge of its distribution is told from a difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from conftest import MakeBundle
from mulo_engines.bundle import Bundle
from mulo_runtime import AutoRegressive, ClassId, Pipeline, Prompt, Request
from mulo_runtime.defaults import default_method, default_sampling
from mulo_tools.verify.edge import DISTANCES, edge_distance
from mulo_tools.verify.side import Side
from mulo_tools.verify.tokens import TokenRow, compare_tokens
from numpy.typing import NDArray
from verify_sides import ChangedBackend, draw_after, nudge

MakeSide = Callable[..., Side]
PROMPT = Prompt("red circle and blue square")
PREFIX = 6
EDGE = 1e-4


def rows(a: Side, b: Side, seed: int = 5, edge: float = EDGE) -> dict[str, TokenRow]:
    return {row.model: row for row in compare_tokens(a, b, PROMPT, [seed], edge)}


def plain_tokens(side: Side, seed: int = 5) -> NDArray[np.int64]:
    pipeline = Pipeline(side.bundle, dict(side.engines))
    return pipeline.generate(Request(PROMPT, seed, AutoRegressive())).tokens.ravel()


def request(side: Side, seed: int = 5) -> Request:
    manifest = side.bundle.manifest
    return Request(PROMPT, seed, default_method(manifest), default_sampling(manifest))


def test_a_side_agrees_with_itself_token_by_token(make_side: MakeSide) -> None:
    compared = rows(make_side(), make_side())
    assert [(row.model, row.tokens, row.differing) for row in compared.values()] == [
        ("drafter", 16, 0),
        ("target", 64, 0),
        ("mulo-sd", 64, 0),
    ]
    assert all(row.divergence is None and row.within for row in compared.values())


def test_classes_are_compared_like_prompts(make_side: MakeSide) -> None:
    compared = list(compare_tokens(make_side(text=False), make_side(text=False), ClassId(2), [0, 1], EDGE))
    assert [(row.seed, row.model) for row in compared] == [
        (seed, model) for seed in (0, 1) for model in ("drafter", "target", "mulo-sd")
    ]
    assert all(row.within for row in compared)


def test_the_first_token_that_differs_is_found_and_no_edge_excuses_it(make_side: MakeSide) -> None:
    fed, ours = 20, make_side()
    wrong = (plain_tokens(ours)[fed + 1].item() + 1) % 64
    row = rows(ours, make_side(target=(None, draw_after(PREFIX + fed, wrong))))["target"]
    assert row.divergence is not None
    assert (row.divergence.index, row.divergence.place) == (fed + 1, (2, 5))
    assert row.divergence.drawn[1] == wrong
    assert row.divergence.edge is None or row.divergence.edge > EDGE
    assert not row.within


def test_a_drafter_that_deviates_is_found_by_its_draft(make_side: MakeSide) -> None:
    compared = rows(make_side(), make_side(drafter=(None, draw_after(PREFIX + 3, 9))))
    assert compared["drafter"].divergence is not None
    assert compared["drafter"].divergence.index == 4
    assert compared["target"].divergence is None


def test_drafts_are_drawn_in_the_order_in_which_they_are_compared(
    shared_bundle: MakeBundle,
) -> None:
    """The bundle drafts staggered rows, whose order is not that of the raster."""
    bundle = Bundle.open(shared_bundle())
    staggered = {**bundle.manifest.mulo, "draft_window": 2, "draft": "rows"}
    bundle = replace(bundle, manifest=bundle.manifest.model_copy(update={"mulo": staggered}))
    changed = {"drafter": (None, draw_after(PREFIX + 3, 9))}
    with (
        Side.load("a", bundle, ChangedBackend({})) as ours,
        Side.load("b", bundle, ChangedBackend(changed)) as theirs,
    ):
        divergence = rows(ours, theirs)["drafter"].divergence
    assert divergence is not None
    assert divergence.index == 4


def test_draws_that_a_small_step_of_their_number_explains_are_at_an_edge(make_side: MakeSide) -> None:
    """A sampler whose numbers are all a little too large parts from another only where an edge is that near."""
    step = 5e-3
    nudged = make_side(sampler=(nudge(step), None))
    for row in (rows(make_side(), nudged, edge=1e-2)[model] for model in ("drafter", "target")):
        if row.divergence is not None:
            assert row.divergence.edge is not None
            assert row.divergence.edge <= 1e-2
            assert row.within
    strict = rows(make_side(), nudged, edge=1e-7)["target"]
    assert strict.divergence is not None
    assert not strict.within


def test_the_distance_of_an_edge_is_that_at_which_the_other_token_is_drawn(make_side: MakeSide) -> None:
    side = make_side()
    tokens = plain_tokens(side)
    for index in (0, 1, 30):
        assert edge_distance(side, "target", request(side), tokens[:index], tokens[index].item()) == DISTANCES[0]
        assert edge_distance(side, "target", request(side), tokens[:index], 64) is None


def test_what_mulo_sd_makes_is_shown_and_not_judged(make_side: MakeSide) -> None:
    row = rows(make_side(), make_side(target=(None, draw_after(PREFIX + 20, 7))))["mulo-sd"]
    assert not row.judged
    assert row.within
