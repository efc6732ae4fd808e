"""The methods, on real engines: what equals what, and in how many passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mulo_runtime import AutoRegressive, ClassId, MuloSD, Prompt, Request, Result, Sampling, ZipAR
from pipelines import MakePipeline, request
from safetensors.numpy import load_file

REJECT_ALL, ACCEPT_ALL = 2.0, 0.0


def drafter_queries(results: Sequence[Result]) -> int:
    return sum(result.statistics.engines["drafter"].queries for result in results)


def tokens(result: Result) -> list[int]:
    return result.tokens.ravel().tolist()


@pytest.mark.parametrize("ratio", [2, 4])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"draft": "rows", "draft_window": 0},
        {"draft": "rows", "look_ahead": 0, "resynchronise": False},
        {"rows_per_round": 0},
        {"rows_per_round": 3},
        {"refresh": "dirty"},
        {"refresh": "none"},
        {"stale": "mask"},
        {"rejection": "raster"},
        {"radius": None},
        {"include_self": False},
        {"redraw_k": 8},
    ],
    ids=str,
)
def test_rejecting_everything_and_resampling_serially_is_plain_decoding(
    open_pipeline: MakePipeline, ratio: int, changes: dict[str, Any]
) -> None:
    pipeline = open_pipeline(ratio=ratio)
    plain = pipeline.generate(request(3, AutoRegressive()))
    method = MuloSD(**{"tau": REJECT_ALL, "islands": "serial", **changes})
    assert tokens(pipeline.generate(request(3, method))) == tokens(plain)


UNGUIDED = Sampling(guidance_scale=1.0)
GUIDED = Sampling(guidance_scale=3.0)


@pytest.mark.parametrize(("guided", "plain"), [("both", GUIDED), ("target", GUIDED), ("drafter", UNGUIDED)])
def test_resampling_is_guided_only_where_the_target_is(
    open_pipeline: MakePipeline, guided: str, plain: Sampling
) -> None:
    pipeline = open_pipeline()
    method = MuloSD(tau=REJECT_ALL, islands="serial", guided=guided)
    expected = pipeline.generate(request(3, AutoRegressive(), sampling=plain))
    assert tokens(pipeline.generate(request(3, method, sampling=GUIDED))) == tokens(expected)


@pytest.mark.parametrize(("guided", "drafted"), [("both", GUIDED), ("target", UNGUIDED), ("drafter", GUIDED)])
def test_drafting_is_guided_only_where_the_drafter_is(
    open_pipeline: MakePipeline, guided: str, drafted: Sampling
) -> None:
    pipeline = open_pipeline()
    expected = pipeline.generate(request(3, MuloSD(tau=ACCEPT_ALL), sampling=drafted))
    method = MuloSD(tau=ACCEPT_ALL, guided=guided)
    assert tokens(pipeline.generate(request(3, method, sampling=GUIDED))) == tokens(expected)


@pytest.mark.parametrize("changes", [{"draft_temperature": 0.0}, {"draft_top_k": 1}], ids=str)
def test_the_drafter_may_draw_otherwise_than_the_target(open_pipeline: MakePipeline, changes: dict[str, Any]) -> None:
    pipeline = open_pipeline()
    greedy_draft = MuloSD(tau=ACCEPT_ALL, **changes)
    greedy = replace(pipeline.sampling, temperature=0.0)
    expected = pipeline.generate(request(3, MuloSD(tau=ACCEPT_ALL), sampling=greedy))
    assert tokens(pipeline.generate(request(3, greedy_draft))) == tokens(expected)
    target_alone = greedy_draft.with_changes(tau=REJECT_ALL, islands="serial")
    plain = pipeline.generate(request(3, AutoRegressive()))
    assert tokens(pipeline.generate(request(3, target_alone))) == tokens(plain)


@pytest.mark.parametrize("window", [1, 2, 3, 8])
def test_rejecting_the_whole_image_with_a_window_inside_is_zipar(open_pipeline: MakePipeline, window: int) -> None:
    pipeline = open_pipeline()
    method = MuloSD(tau=REJECT_ALL, rows_per_round=0, window=window, surrogate="latest", stale="mask", refresh="dirty")
    zipar = pipeline.generate(request(5, ZipAR(window)))
    assert tokens(pipeline.generate(request(5, method))) == tokens(zipar)


def test_zipar_with_a_window_of_a_row_is_plain_decoding(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    results = [pipeline.generate(request(2, method)) for method in (AutoRegressive(), ZipAR(64))]
    assert tokens(results[0]) == tokens(results[1])


@pytest.mark.parametrize("draft", ["image", "rows"])
def test_accepting_everything_is_the_upsampled_draft(open_pipeline: MakePipeline, draft: Any) -> None:
    pipeline = open_pipeline()
    drafts: list[np.ndarray] = []
    method = MuloSD(tau=ACCEPT_ALL, rows_per_round=0, draft=draft)

    def keep(event: Any) -> None:
        if type(event).__name__ == "Drafted":
            drafts.append(event.tokens)

    result = pipeline.generate(request(1, method), on_event=keep)
    upsampled = pipeline._engines["upsampler"].run_once({"token_ids": drafts[-1]})["candidate_ids"]
    assert tokens(result) == upsampled.ravel().tolist()
    assert result.statistics.accepted_share == 1
    assert result.statistics.engines["target"].passes == 2


@pytest.mark.parametrize("window", [1, 2, 4, 16])
@pytest.mark.parametrize("ratio", [2, 4])
def test_passes_are_exactly_those_of_the_schedule(open_pipeline: MakePipeline, ratio: int, window: int) -> None:
    pipeline = open_pipeline(ratio=ratio)
    side = 4 * ratio
    narrow = min(window, side)

    def passes(method: Any) -> int:
        return pipeline.generate(request(0, method)).statistics.engines["target"].passes

    assert passes(AutoRegressive()) == side * side
    assert passes(ZipAR(window)) == side + (side - 1) * narrow
    assert passes(ZipAR(window, "published")) == 2 * side + (side - 2) * narrow


@pytest.mark.parametrize(
    "changes",
    [
        {"draft": "rows"},
        {"draft": "rows", "refresh": "none", "window": 1},
        {"rejection": "raster", "window": 2},
        {"radius": None, "islands": "serial"},
        {"refresh": "dirty", "stale": "mask", "surrogate": "latest"},
        {"rows_per_round": 0, "window": 1},
    ],
    ids=str,
)
def test_what_is_verified_is_accepted_or_resampled_and_nothing_accepted_is_changed(
    open_pipeline: MakePipeline, changes: dict[str, Any]
) -> None:
    result = open_pipeline().generate(request(4, MuloSD(tau=0.1, pool_k=4, **changes)))
    statistics, accept_map = result.statistics, result.accept_map
    assert 0 < statistics.accepted < statistics.verified == accept_map.size
    assert statistics.rejected == (accept_map == 2).sum()
    assert statistics.resampled == (accept_map >= 2).sum()
    assert (accept_map > 0).all()


def test_without_expansion_only_rejections_are_resampled(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    alone, wide = (
        pipeline.generate(request(4, MuloSD(tau=0.05, pool_k=4, radius=radius, rows_per_round=0)))
        for radius in (None, 2)
    )
    assert alone.statistics.resampled == alone.statistics.rejected
    assert wide.statistics.rejected == alone.statistics.rejected < wide.statistics.resampled


def test_a_candidate_gives_way_to_what_is_drawn_near_it_and_to_nothing_else(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    method = MuloSD(tau=ACCEPT_ALL, rows_per_round=0)
    kept, near, wide = (
        np.array(tokens(pipeline.generate(request(5, method.with_changes(redraw_k=nearest))))) for nearest in (0, 4, 15)
    )
    nearest = load_file(pipeline.bundle.file("neighbours.safetensors"))["neighbours"]
    within = (nearest[kept, 1:5] == wide[:, None]).any(1)
    assert 0 < within.sum() < (wide != kept).sum() < len(kept)
    assert near.tolist() == np.where(within, wide, kept).tolist()


@pytest.mark.parametrize("refresh", ["block", "none"])
def test_the_next_round_sees_what_was_redrawn_where_keys_are_refreshed(
    open_pipeline: MakePipeline, refresh: Any
) -> None:
    pipeline, method = open_pipeline(), MuloSD(tau=ACCEPT_ALL, refresh=refresh)
    kept, redrawn = (
        pipeline.generate(request(5, method.with_changes(redraw_k=nearest))).statistics.engines["target"].queries
        for nearest in (0, 8)
    )
    assert redrawn > kept if refresh == "block" else redrawn == kept


@pytest.mark.parametrize(
    "method",
    [
        AutoRegressive(),
        ZipAR(2),
        ZipAR(2, schedule="published"),
        MuloSD(pool_k=4),
        MuloSD(pool_k=4, guided="drafter"),
        MuloSD(pool_k=4, rows_per_round=0),
        MuloSD(pool_k=4, refresh="dirty", stale="mask"),
        MuloSD(pool_k=4, rejection="raster", islands="serial"),
        MuloSD(pool_k=4, draft="rows"),
        MuloSD(pool_k=4, draft="rows", refresh="none"),
        MuloSD(pool_k=4, draft="rows", resynchronise=False),
        MuloSD(tau=0.01, pool_k=4, redraw_k=8),
    ],
    ids=str,
)
def test_images_of_a_batch_are_those_decoded_alone(open_pipeline: MakePipeline, method: Any) -> None:
    """Each image has a condition, a seed and, where it resamples, a schedule of its own."""
    alone, together = open_pipeline(), open_pipeline(images=3)
    prompts = [Prompt(text) for text in ("red circle", "blue square and red circle", "blue square")]
    for first in (0, 3):
        requests = [Request(prompt, seed=first + image, method=method) for image, prompt in enumerate(prompts)]
        singles = [alone.generate(one) for one in requests]
        batch = together.generate_batch(requests)
        assert [tokens(result) for result in batch] == [tokens(single) for single in singles]
        assert [result.statistics.resampled for result in batch] == [s.statistics.resampled for s in singles]
        if isinstance(method, MuloSD):
            assert drafter_queries(batch[:1]) == drafter_queries(singles)


@pytest.mark.parametrize("method", [AutoRegressive(), ZipAR(2), MuloSD(pool_k=4)], ids=str)
def test_without_guidance_only_the_conditional_half_is_decoded(open_pipeline: MakePipeline, method: Any) -> None:
    pipeline = open_pipeline()
    unguided = Sampling(guidance_scale=1.0)
    first = pipeline.generate(request(1, method, sampling=unguided))
    pipeline.generate(request(1, method))
    again = pipeline.generate(request(1, method, sampling=unguided))
    assert tokens(first) == tokens(again)


def test_a_class_is_drawn_like_a_text(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(text=False)
    results = [
        pipeline.generate(Request(ClassId(1), seed=3, method=method))
        for method in (AutoRegressive(), MuloSD(tau=REJECT_ALL, islands="serial"))
    ]
    assert tokens(results[0]) == tokens(results[1])
