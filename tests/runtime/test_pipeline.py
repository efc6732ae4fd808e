"""A pipeline under threads, faults, cancellation and deadlines: the next image is always the right one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mulo_engines.errors import (
    BundleError,
    Busy,
    Cancelled,
    DeadlineExceeded,
    EngineError,
    NonFiniteError,
    OutOfMemory,
    PipelineClosed,
    PromptError,
    RequestError,
)
from mulo_runtime import (
    AutoRegressive,
    ClassId,
    Done,
    DraftPreview,
    MuloSD,
    Pass,
    Pipeline,
    Prompt,
    Request,
    Result,
    RowsPreview,
    Sampling,
    TextFeatures,
    ZipAR,
)
from pipelines import Faults, MakePipeline, request

MULO = MuloSD(pool_k=4)
METHODS = (AutoRegressive(), ZipAR(2), MULO, MuloSD(pool_k=4, draft="rows", refresh="dirty"))


def same(a: Result, b: Result) -> bool:
    return bool((a.tokens == b.tokens).all() and (a.image == b.image).all() and (a.accept_map == b.accept_map).all())


def test_a_seed_gives_the_same_image_whatever_ran_before(open_pipeline: MakePipeline) -> None:
    fresh, used = open_pipeline(), open_pipeline(lanes=2)
    for seed, method in enumerate(METHODS):
        expected = fresh.generate(request(seed, method))
        for other in METHODS:
            used.generate(request(99, other))
        assert same(used.generate(request(seed, method)), expected)


def test_every_pass_of_an_image_is_told_in_order_and_only_to_who_asked(open_pipeline: MakePipeline) -> None:
    pipeline, passes = open_pipeline(), list[Pass]()
    (result,) = pipeline.generate_batch([request(3, MULO)], on_pass=passes.append)
    told = len(passes)
    assert [each.start for each in passes] == sorted(each.start for each in passes)
    for name, usage in result.statistics.phases.items():
        own = [each for each in passes if each.phase == name]
        assert (len(own), sum(each.queries for each in own)) == (usage.passes, usage.queries)
        assert sum(each.seconds for each in own) == pytest.approx(usage.seconds)
    pipeline.generate(request(3, MULO))
    list(pipeline.stream(request(3, MULO)))
    assert len(passes) == told


def test_a_request_without_a_seed_tells_the_one_it_drew(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    result = pipeline.generate(Request(Prompt("a red circle"), method=MULO))
    again = pipeline.generate(Request(Prompt("a red circle"), method=MULO, seed=result.seed))
    assert same(result, again)


def test_threads_on_any_number_of_lanes_get_their_own_images(open_pipeline: MakePipeline) -> None:
    requests = [request(seed, METHODS[seed % len(METHODS)]) for seed in range(12)]
    expected = [open_pipeline().generate(one) for one in requests]
    pipeline = open_pipeline(lanes=3, queue=12)
    results: dict[int, Result] = {}

    def serve(index: int) -> None:
        results[index] = pipeline.generate(requests[index])

    threads = [threading.Thread(target=serve, args=(index,)) for index in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(results[index], wanted) for index, wanted in enumerate(expected))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_after_a_failure_at_any_engine_call_the_next_image_is_that_of_a_fresh_pipeline(
    faulty_pipeline: tuple[Pipeline, Faults], method: Any
) -> None:
    pipeline, faults = faulty_pipeline
    faults.arm(None, RuntimeError())
    expected = pipeline.generate(request(1, method))
    calls = faults.calls
    errors = (EngineError("injected"), OutOfMemory("injected"), KeyboardInterrupt())
    for at in range(0, calls, 1 if calls < 60 else 7):
        error = errors[at % len(errors)]
        faults.arm(at, error)
        with pytest.raises(type(error)):
            pipeline.generate(request(2, method))
        faults.arm(None, error)
        assert same(pipeline.generate(request(1, method)), expected), at


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_request_is_cancelled_at_its_next_pass(faulty_pipeline: tuple[Pipeline, Faults], method: Any) -> None:
    pipeline, faults = faulty_pipeline
    expected = pipeline.generate(request(1, method))
    signal = threading.Event()
    for at in (0, 3, 9):
        signal.clear()
        stop = _SetAt(signal, faults, at)
        faults.arm(None, RuntimeError())
        stop.install()
        with pytest.raises(Cancelled):
            pipeline.generate(request(2, method), cancel=signal)
        # A pass is a model and its sampler, and between two guards there may be one graph around them.
        assert faults.calls <= at + 4
        stop.remove()
        assert same(pipeline.generate(request(1, method)), expected)


class _SetAt:
    """Sets a signal when the engines have been called `at` times."""

    def __init__(self, signal: threading.Event, faults: Faults, at: int) -> None:
        self._signal, self._faults, self._at = signal, faults, at

    def install(self) -> None:
        self._faults.on_call = lambda calls: self._signal.set() if calls > self._at else None

    def remove(self) -> None:
        self._faults.on_call = None


def test_a_deadline_that_has_passed_stops_the_request(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    with pytest.raises(DeadlineExceeded):
        pipeline.generate(request(0, AutoRegressive(), deadline=0.0))
    assert pipeline.generate(request(0, AutoRegressive(), deadline=600.0)).seed == 0


def test_a_full_queue_refuses_at_once_and_a_waiting_request_keeps_its_deadline(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=1, queue=1)
    stream = pipeline.stream(request(0, MULO))
    next(stream)
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            pipeline.generate(request(1, MULO, deadline=0.5))
        except DeadlineExceeded as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not pipeline._pool._waiting:
        pass
    with pytest.raises(Busy, match="1 lanes, 1 requests waiting"):
        pipeline.generate(request(2, MULO))
    thread.join()
    assert len(waiting) == 1
    stream.close()
    assert pipeline.generate(request(2, MULO)).seed == 2


def test_a_stream_shows_the_draft_then_verified_rows_and_ends_with_the_same_result(
    open_pipeline: MakePipeline,
) -> None:
    pipeline = open_pipeline()
    events = list(pipeline.stream(request(6, MULO)))
    assert isinstance(events[0], DraftPreview)
    rows = [event.rows for event in events if isinstance(event, RowsPreview)]
    assert rows == sorted(rows)
    assert rows[-1] == 8
    done = events[-1]
    assert isinstance(done, Done)
    assert same(done.result, pipeline.generate(request(6, MULO)))
    assert (events[-2].image == done.result.image).all()


def test_a_stream_that_is_abandoned_gives_its_lane_back(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    expected = pipeline.generate(request(1, MULO))
    for consumed in (1, 2):
        stream = pipeline.stream(request(2, MULO))
        for _ in range(consumed):
            next(stream)
        stream.close()
        assert same(pipeline.generate(request(1, MULO)), expected)


def test_a_closed_pipeline_says_so_and_closes_again_in_silence(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    pipeline.close()
    pipeline.close()
    with pytest.raises(PipelineClosed):
        pipeline.generate(request())


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        (Prompt("a mauve circle"), PromptError, "mauve"),
        (ClassId(1), RequestError, "ClassId"),
        (TextFeatures(np.zeros((2, 8), np.float32), np.ones(2, np.bool_)), RequestError, "do not fit"),
        (TextFeatures(np.full((6, 24), np.nan, np.float32), np.ones(6, np.bool_)), RequestError, "not finite"),
    ],
    ids=str,
)
def test_a_condition_that_does_not_fit_is_refused_and_the_lane_survives(
    open_pipeline: MakePipeline, condition: Any, error: type[Exception], message: str
) -> None:
    pipeline = open_pipeline()
    with pytest.raises(error, match=message):
        pipeline.generate(Request(condition))
    assert pipeline.generate(request(0, MULO)).seed == 0


def test_a_class_out_of_range_is_refused(open_pipeline: MakePipeline) -> None:
    with pytest.raises(RequestError, match="out of range"):
        open_pipeline(text=False).generate(Request(ClassId(5)))


def test_a_seed_out_of_range_is_refused() -> None:
    with pytest.raises(RequestError, match="seed"):
        Request(Prompt("a red circle"), seed=2**64)


def test_a_batch_of_unlike_requests_or_of_too_many_is_refused(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(images=2)
    with pytest.raises(RequestError, match="differ"):
        pipeline.generate_batch([request(0, MULO), request(0, ZipAR(2))])
    with pytest.raises(RequestError, match="3 requests"):
        pipeline.generate_batch([request(0, MULO)] * 3)


def test_settings_that_need_a_larger_cache_are_refused_with_the_way_out(shared_bundle: Callable[..., Path]) -> None:
    with Pipeline.open(shared_bundle(), threads=1, methods=[MULO]) as pipeline:
        with pytest.raises(RequestError, match="methods="):
            pipeline.generate(request(0, MuloSD(refresh="none")))
        assert pipeline.generate(request(0, MULO)).seed == 0


def test_pooling_over_more_neighbours_than_the_bundle_has_is_refused(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    most = pipeline.bundle.manifest.pool_k_max
    pipeline.generate(request(0, MuloSD(pool_k=most)))
    for method in (MuloSD(pool_k=most + 1), MuloSD(pool_k=most, include_self=False)):
        with pytest.raises(RequestError, match=f"{most + 1} entries to pool"):
            pipeline.generate(request(0, method))


def test_watching_an_image_grow_is_not_booked_on_it(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    watched = list(pipeline.stream(request(6, MULO)))[-1]
    assert isinstance(watched, Done)
    alone = pipeline.generate(request(6, MULO)).statistics
    passes = [{name: usage.passes for name, usage in one.engines.items()} for one in (watched.result.statistics, alone)]
    assert passes[0] == passes[1]


def test_defaults_of_a_manifest_that_mean_nothing_refuse_the_bundle(shared_bundle: Callable[..., Path]) -> None:
    with Pipeline.open(shared_bundle(), threads=1) as pipeline:
        bundle, engines = pipeline.bundle, pipeline._engines
        manifest = bundle.manifest.model_copy(update={"mulo": {"threshold": 1}})
        with pytest.raises(BundleError, match="defaults"):
            Pipeline(type(bundle)(bundle.path, manifest), engines)


def test_logits_that_are_not_finite_never_become_an_image(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    expected = pipeline.generate(request(1, MULO))
    features = np.full((6, pipeline.bundle.manifest.condition.feature_size or 0), 3e38, np.float32)
    with pytest.raises(NonFiniteError):
        pipeline.generate(Request(TextFeatures(features, np.ones(6, np.bool_)), seed=1, method=MULO))
    assert same(pipeline.generate(request(1, MULO)), expected)


def test_greedy_decoding_does_not_depend_on_the_seed(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()
    greedy = Sampling(guidance_scale=2.0, temperature=0.0)
    results = [pipeline.generate(request(seed, AutoRegressive(), sampling=greedy)) for seed in (1, 2)]
    assert (results[0].tokens == results[1].tokens).all()


def test_statistics_add_up(open_pipeline: MakePipeline) -> None:
    statistics = open_pipeline().generate(request(4, MuloSD(tau=0.1, pool_k=4, draft="rows"))).statistics
    assert statistics.rounds == 4
    assert statistics.drafted == 16
    assert statistics.accepted + statistics.rejected == statistics.verified == 64
    assert set(statistics.phases) >= {"draft", "upsample", "verify", "resample", "decode"}
    spent = [sum(usage.seconds for usage in group.values()) for group in (statistics.engines, statistics.phases)]
    assert spent[0] == pytest.approx(spent[1])
    assert 0 < statistics.host_share < 1
