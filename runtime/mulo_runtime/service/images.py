"""Makes images for requests: whole, or as events while they grow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from mulo_engines.errors import MuloError

from mulo_runtime.pipeline import Pipeline
from mulo_runtime.request import Done, Request, Result
from mulo_runtime.service.answers import completed_event, images_response, partial_event
from mulo_runtime.service.event_stream import event_bytes
from mulo_runtime.service.failures import failure_of
from mulo_runtime.service.image_requests import image_size, make_requests
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.metrics import Metrics
from mulo_runtime.service.schema import ImageRequest, ImagesResponse
from mulo_runtime.service.tracing import trace_image

__all__ = ["ImageService"]


class ImageService:
    """What `/v1/images/generations` does.

    Args:
        pipeline: makes the images.
        limits: what a request may ask for.
        metrics: counts the images.
    """

    def __init__(self, pipeline: Pipeline, limits: Limits, metrics: Metrics) -> None:
        self._pipeline, self._limits, self._metrics = pipeline, limits, metrics
        self._size = image_size(pipeline.bundle.manifest)
        self._drafter_rows = pipeline.bundle.manifest.drafter.rows

    async def answer(self, body: ImageRequest) -> ImagesResponse:
        """All images of a request; they take a place each, and one that is refused takes the others with it.

        Raises:
            MuloError: what went wrong.
        """
        results = await self._generate(make_requests(body, self._pipeline, self._limits))
        return await asyncio.to_thread(images_response, results, body.prompt, self._size)

    async def events(self, body: ImageRequest) -> AsyncGenerator[bytes]:
        """The one image of a request, as server-sent events; an error after the first of them is an event, too.

        Raises:
            MuloError: what went wrong before the first event.
        """
        (request,) = make_requests(body, self._pipeline, self._limits)
        shown = 0
        try:
            async with aclosing(self._pipeline.stream_async(request, previews=body.partial_images or 0)) as arriving:
                async for event in arriving:
                    if isinstance(event, Done):
                        self._note(event.result)
                        done = await asyncio.to_thread(completed_event, event.result, body.prompt, self._size)
                        yield event_bytes(done)
                        return
                    partial = await asyncio.to_thread(partial_event, event, shown, self._size, self._drafter_rows)
                    shown += 1
                    yield event_bytes(partial)
        except MuloError as error:
            if not shown:
                raise
            yield event_bytes(failure_of(error).body)

    async def _generate(self, requests: Sequence[Request]) -> list[Result]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._pipeline.generate_async(request)) for request in requests]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        for task in tasks:
            self._note(task.result())
        return [task.result() for task in tasks]

    def _note(self, result: Result) -> None:
        self._metrics.count_image(result)
        trace_image(result)
