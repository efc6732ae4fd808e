"""Methods that verify token after token, on real engines: whatever drafts, the image is the target's."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pytest
from mulo_engines.errors import Cancelled, RequestError
from mulo_runtime import (
    GSD,
    PJD,
    SJD,
    AdaptiveZipAR,
    AutoRegressive,
    CoolSD,
    Lantern,
    LanternPlus,
    LinearRSD,
    Method,
    Result,
    RowsDone,
    Speculative,
    UniformRSD,
    ZipAR,
)
from pipelines import MakePipeline, request

EXACT: tuple[Method, ...] = (SJD(4), SJD(64), SJD(4, start="left"), Speculative(), Speculative(1), Speculative(64))
EXACT += (Speculative(5, "static"), Speculative(1, "static"), Speculative(3, "dynamic", tree_nodes=9, tree_width=4))
RELAXED: tuple[Method, ...] = (
    GSD(4, group_k=4),
    CoolSD(delta=2.0),
    CoolSD(residual="vanilla"),
    UniformRSD(delta=2.0),
    LinearRSD(),
    Lantern(nearest=4),
    LanternPlus(nearest=4),
    LanternPlus(nearest=4, residual="general"),
    CoolSD(3, "static"),
    Lantern(3, "static", nearest=4),
    Lantern(3, "dynamic", tree_nodes=9, tree_width=4, nearest=4),
    LanternPlus(3, "dynamic", tree_nodes=9, tree_width=4, nearest=4),
)
METHODS = (*EXACT, *RELAXED, PJD(2, 3), AdaptiveZipAR(2))
every_method = pytest.mark.parametrize("method", METHODS, ids=str)


def tokens(result: Result) -> list[int]:
    return result.tokens.ravel().tolist()


@pytest.mark.parametrize("method", EXACT, ids=str)
def test_where_tokens_are_not_drawn_the_image_is_that_of_plain_decoding(
    open_pipeline: MakePipeline, method: Any
) -> None:
    pipeline = open_pipeline(methods=METHODS)
    greedy = replace(pipeline.sampling, temperature=0.0)
    plain = pipeline.generate(request(3, AutoRegressive(), sampling=greedy))
    result = pipeline.generate(request(3, method, sampling=greedy))
    assert tokens(result) == tokens(plain)
    assert result.statistics.engines["target"].passes <= plain.statistics.engines["target"].passes


@every_method
def test_every_token_is_accepted_or_resampled(open_pipeline: MakePipeline, method: Any) -> None:
    result = open_pipeline(methods=METHODS).generate(request(4, method))
    statistics, accept_map = result.statistics, result.accept_map.ravel()
    assert accept_map[0] == 0  # drawn from the condition alone
    assert statistics.accepted == (accept_map == 1).sum()
    if not isinstance(method, AdaptiveZipAR):  # which may draw a row's first token several times
        assert statistics.resampled == (accept_map == 2).sum()
    if not isinstance(method, PJD | AdaptiveZipAR):
        # Behind tokens that are all accepted, the target draws one more without a draft.
        assert (accept_map == 0).sum() + statistics.resampled <= statistics.rounds + 1
    assert statistics.verified == statistics.accepted + statistics.rejected == statistics.drafted
    assert statistics.engines["target"].passes == statistics.rounds + 1


@every_method
def test_equal_seeds_give_equal_images_and_others_do_not(open_pipeline: MakePipeline, method: Any) -> None:
    pipeline = open_pipeline(methods=METHODS)
    first, again, other = (tokens(pipeline.generate(request(seed, method))) for seed in (1, 1, 2))
    assert first == again != other


@every_method
def test_images_of_a_batch_are_those_decoded_alone(open_pipeline: MakePipeline, method: Any) -> None:
    alone, together = open_pipeline(methods=METHODS), open_pipeline(images=3, methods=METHODS)
    requests = [request(seed, method) for seed in (1, 2, 3)]
    singles = [alone.generate(one) for one in requests]
    batch = together.generate_batch(requests)
    assert list(map(tokens, batch)) == list(map(tokens, singles))
    assert [one.statistics.accepted for one in batch] == [one.statistics.accepted for one in singles]


@every_method
def test_rows_are_told_of_in_order_and_are_final(open_pipeline: MakePipeline, method: Any) -> None:
    told: list[tuple[int, list[int]]] = []

    def keep(event: Any) -> None:
        assert isinstance(event, RowsDone)
        told.append((event.rows, event.tokens[0, : event.rows].ravel().tolist()))

    result = open_pipeline(methods=METHODS).generate(request(2, method), on_event=keep)
    rows = [count for count, _ in told]
    assert rows == sorted(set(rows))
    assert rows[-1] == len(result.tokens)
    assert all(final == result.tokens[:count].ravel().tolist() for count, final in told)


@every_method
def test_a_cancelled_request_stops_and_leaves_the_lane_usable(open_pipeline: MakePipeline, method: Any) -> None:
    pipeline, cancel = open_pipeline(methods=METHODS), Event()
    with pytest.raises(Cancelled):
        pipeline.generate(request(1, method), cancel=cancel, on_event=lambda _: cancel.set())
    assert np.isfinite(pipeline.generate(request(1, method)).image).all()


@pytest.mark.parametrize("window", [1, 3])
def test_rows_of_single_drafts_are_zipars_where_tokens_are_not_drawn(open_pipeline: MakePipeline, window: int) -> None:
    alone = PJD(window, jacobi_window=1)
    pipeline = open_pipeline(methods=[alone])
    greedy = replace(pipeline.sampling, temperature=0.0)
    zipar, rows = (pipeline.generate(request(3, method, sampling=greedy)) for method in (ZipAR(window), alone))
    assert tokens(rows) == tokens(zipar)
    assert rows.statistics.engines["target"].passes == zipar.statistics.engines["target"].passes


def test_rows_that_wait_for_whole_rows_are_plain_decoding_where_tokens_are_not_drawn(
    open_pipeline: MakePipeline,
) -> None:
    waiting = PJD(64, jacobi_window=4), AdaptiveZipAR(64)
    pipeline = open_pipeline(methods=waiting)
    greedy = replace(pipeline.sampling, temperature=0.0)
    plain, *rows = (pipeline.generate(request(3, method, sampling=greedy)) for method in (AutoRegressive(), *waiting))
    assert [tokens(result) for result in rows] == [tokens(plain)] * 2


def test_an_adaptive_window_takes_no_fewer_passes_than_its_smallest(open_pipeline: MakePipeline) -> None:
    adaptive = AdaptiveZipAR(2)
    pipeline = open_pipeline(methods=[adaptive])
    least, found, most = (
        pipeline.generate(request(3, method)).statistics.engines["target"].passes
        for method in (ZipAR(2), adaptive, AutoRegressive())
    )
    assert least < found < most


def test_a_pipeline_that_holds_no_distributions_says_so(open_pipeline: MakePipeline) -> None:
    with pytest.raises(RequestError, match="too few distributions"):
        open_pipeline().generate(request(1, SJD(4)))


def test_a_pipeline_without_a_head_says_so(open_pipeline: MakePipeline) -> None:
    with pytest.raises(RequestError, match="no EAGLE head"):
        open_pipeline(methods=[SJD(8)]).generate(request(1, Speculative(1)))


def test_a_table_of_neighbours_that_is_too_short_is_told(open_pipeline: MakePipeline) -> None:
    with pytest.raises(RequestError, match="too short"):
        open_pipeline(methods=METHODS).generate(request(1, GSD(4, group_k=40)))
