"""The pipeline in an event loop: the same images, no hidden queue, and nobody is waited for."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from threading import active_count

import pytest
from mulo_engines.errors import Busy, DeadlineExceeded, EngineError
from mulo_runtime import AutoRegressive, Done, DraftPreview, MuloSD, Pipeline, RowsPreview, VerifiedPreview, ZipAR
from pipelines import Faults, MakePipeline, request

MULO = MuloSD(pool_k=4)


async def free_lanes(pipeline: Pipeline) -> None:
    while pipeline.load().free < pipeline.load().lanes or pipeline.load().waiting:
        await asyncio.sleep(0.001)


def test_images_are_those_of_the_blocking_twin(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline(lanes=2, queue=4)
    requests = [request(seed, method) for seed, method in enumerate((MULO, ZipAR(2), AutoRegressive(), MULO, MULO))]
    expected = [pipeline.generate(one).tokens.tolist() for one in requests]

    async def together() -> list[object]:
        return [result.tokens.tolist() for result in await asyncio.gather(*map(pipeline.generate_async, requests))]

    assert asyncio.run(together()) == expected


def test_a_stream_shows_draft_verification_and_rows(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()

    async def kinds() -> list[type]:
        return [type(event) async for event in pipeline.stream_async(request(3, MULO.with_changes(rows_per_round=0)))]

    assert asyncio.run(kinds()) == [DraftPreview, VerifiedPreview, RowsPreview, Done]


def test_the_place_after_the_queue_is_refused_at_once_and_the_accepted_are_served(
    open_pipeline: MakePipeline,
) -> None:
    pipeline = open_pipeline(lanes=1, queue=2)

    async def storm() -> list[object]:
        calls = [pipeline.generate_async(request(seed, MULO)) for seed in range(6)]
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = asyncio.run(storm())
    assert [isinstance(outcome, Busy) for outcome in outcomes] == [False] * 3 + [True] * 3
    assert [outcome.seed for outcome in outcomes[:3]] == [0, 1, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("waits", [False, True])
def test_a_cancelled_task_frees_its_lane_or_its_place(open_pipeline: MakePipeline, waits: bool) -> None:
    pipeline = open_pipeline(lanes=1, queue=1)
    expected = pipeline.generate(request(1, MULO)).tokens.tolist()

    async def cancel() -> None:
        tasks = [asyncio.create_task(pipeline.generate_async(request(2, AutoRegressive()))) for _ in range(1 + waits)]
        while pipeline.load().waiting < waits or pipeline.load().free:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)
        await free_lanes(pipeline)

    asyncio.run(cancel())
    assert pipeline.generate(request(1, MULO)).tokens.tolist() == expected


def test_a_reader_that_never_reads_holds_no_lane_and_still_gets_the_image(open_pipeline: MakePipeline) -> None:
    pipeline = open_pipeline()

    async def dawdle() -> list[object]:
        async with aclosing(pipeline.stream_async(request(4, AutoRegressive()))) as events:
            first = await anext(events)
            await free_lanes(pipeline)
            await asyncio.sleep(0.05)
            return [first, *[event async for event in events]]

    events = asyncio.run(dawdle())
    assert isinstance(events[-1], Done)
    assert [type(event) for event in events[:-1]] == [RowsPreview] * (len(events) - 1)


def test_of_the_previews_that_lie_unread_the_oldest_are_dropped(
    open_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulo_runtime.async_stream._KEPT_BYTES", 2 * 32 * 32 * 3)
    pipeline = open_pipeline()

    async def dawdle() -> list[object]:
        async with aclosing(pipeline.stream_async(request(4, AutoRegressive()))) as events:
            await anext(events)
            await free_lanes(pipeline)
            await asyncio.sleep(0.05)
            return [getattr(event, "rows", "done") async for event in events]

    assert asyncio.run(dawdle()) == [7, 8, "done"]


def test_errors_arrive_in_the_event_loop(faulty_pipeline: tuple[Pipeline, Faults], open_pipeline: MakePipeline) -> None:
    pipeline, faults = faulty_pipeline
    faults.arm(5, EngineError("injected"))
    with pytest.raises(EngineError, match="injected"):
        asyncio.run(pipeline.generate_async(request(0, MULO)))
    faults.arm(None, EngineError("none"))
    with pytest.raises(DeadlineExceeded):
        asyncio.run(pipeline.generate_async(request(0, MULO, deadline=0.0)))
    assert asyncio.run(pipeline.generate_async(request(0, MULO))).seed == 0


def test_closing_the_pipeline_ends_its_threads(open_pipeline: MakePipeline) -> None:
    before = active_count()
    pipeline = open_pipeline()
    asyncio.run(pipeline.generate_async(request(0, MULO)))
    assert active_count() > before
    pipeline.close()
    assert active_count() == before
