"""The service as an ASGI application: its routes, and the layers around them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from mulo_engines.errors import MuloError
from starlette.exceptions import HTTPException

from mulo_runtime.health import Health
from mulo_runtime.pipeline import Pipeline
from mulo_runtime.service.access import AccessLog
from mulo_runtime.service.asgi import Application, until_disconnect
from mulo_runtime.service.bearer import BearerToken
from mulo_runtime.service.body_limit import BodyLimit
from mulo_runtime.service.bundle_card import BundleCard, describe_bundle
from mulo_runtime.service.event_stream import EventStream
from mulo_runtime.service.failures import Failure, failure_of, invalid_field, plain_failure
from mulo_runtime.service.images import ImageService
from mulo_runtime.service.json_answer import failure_headers
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.metrics import CONTENT_TYPE, Metrics
from mulo_runtime.service.page_files import PAGE_HEADERS, PageFile, page_files
from mulo_runtime.service.schema import ErrorResponse, ImageRequest, ImagesResponse

__all__ = ["build_app"]

_LOG = logging.getLogger(__name__)
_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse} for status in (400, 401, 408, 413, 429, 500, 503, 504, "default")
}

_STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def build_app(pipeline: Pipeline, limits: Limits | None = None, *, token: str | None = None) -> Application:
    """The service over `pipeline`, which it warms up when it starts and leaves open when it ends.

    Args:
        pipeline: makes the images.
        limits: what requests may ask for.
        token: the bearer token that requests below `/v1/` need; None needs none.
    """
    limits = limits or Limits()
    metrics = Metrics(pipeline.load)
    app = FastAPI(
        title="mulo", version=version("mulo"), lifespan=partial(_lifespan, pipeline), docs_url=None, redoc_url=None
    )
    _add_images(app, pipeline, limits, metrics)
    _add_health(app, pipeline, limits, metrics)
    _add_page(app)
    _add_failures(app, pipeline, metrics)
    paths = [path for route in app.routes if (path := getattr(route, "path", None))]
    inner: Application = BodyLimit(app, limits)
    return AccessLog(BearerToken(inner, token) if token else inner, metrics, paths, limits.send_seconds)


@asynccontextmanager
async def _lifespan(pipeline: Pipeline, _: FastAPI) -> AsyncIterator[None]:
    warming = asyncio.create_task(asyncio.to_thread(_warm_up, pipeline))
    yield
    await warming


def _warm_up(pipeline: Pipeline) -> None:
    """Warm up; a failure is told by health."""
    try:
        pipeline.warm_up()
    except MuloError:
        _LOG.exception("the warm-up failed; the service will not become ready")


def _add_images(app: FastAPI, pipeline: Pipeline, limits: Limits, metrics: Metrics) -> None:
    service = ImageService(pipeline, limits, metrics)
    card = describe_bundle(pipeline, limits)

    @app.get("/v1/bundle", responses=_FAILURES)
    async def bundle() -> BundleCard:
        """What the bundle makes, and what a request may ask for."""
        return card

    @app.post("/v1/images/generations", response_model=ImagesResponse, responses=_STREAMED | _FAILURES)
    async def generate(body: ImageRequest, http: Request) -> Response:
        """Make images; with `stream`, server-sent events named as OpenAI names them."""
        if pipeline.state != "ready":
            return _answer(plain_failure(503, "not_ready", f"the service is {pipeline.state}", retry=True))
        if not body.stream:
            answer = await until_disconnect(http.receive, service.answer(body))
            return Response(answer.model_dump_json(), media_type="application/json")
        events = service.events(body)
        first = await until_disconnect(http.receive, anext(events))
        return EventStream(_begin_with(first, events))


async def _begin_with(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield first
        async for event in rest:
            yield event
    finally:
        await rest.aclose()


def _add_health(app: FastAPI, pipeline: Pipeline, limits: Limits, metrics: Metrics) -> None:
    async def health() -> Health:
        return await asyncio.to_thread(pipeline.health, silence=limits.silence_seconds)

    @app.get("/livez", responses={503: {}})
    async def livez() -> Response:
        """Whether lanes step; if not, start the process again."""
        found = await health()
        return _health_answer(found, found.live and found.state != "failed")

    @app.get("/readyz", responses={503: {}})
    async def readyz() -> Response:
        """Whether requests are served, and nothing is met for a first time."""
        found = await health()
        return _health_answer(found, found.ready)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def read_metrics() -> Response:
        """Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)


def _health_answer(health: Health, good: bool) -> Response:
    load = health.load
    told = {"state": health.state, "fault": health.fault, "step_seconds": health.step_seconds}
    lanes = {"lanes": load.lanes, "free": load.free, "waiting": load.waiting, "queue": load.queue}
    return JSONResponse(told | lanes, status_code=200 if good else 503)


def _add_page(app: FastAPI) -> None:
    for path, file in page_files().items():
        app.add_api_route(path, _sender(file), methods=["GET"], include_in_schema=False)


def _sender(file: PageFile) -> Callable[[], Response]:
    def send() -> Response:
        return Response(file.content, media_type=file.media_type, headers=PAGE_HEADERS)

    return send


def _add_failures(app: FastAPI, pipeline: Pipeline, metrics: Metrics) -> None:
    """Answer every error in OpenAI's form."""

    @app.exception_handler(MuloError)
    async def mulo_error(_: Request, error: MuloError) -> Response:
        load = pipeline.load()
        return _answer(failure_of(error), metrics.seconds_per_image() * (load.waiting + 1) / load.lanes)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> Response:
        # Starlette logs it after the answer.
        return _answer(plain_failure(500, "unforeseen", f"an unforeseen {type(error).__name__}; the log tells more"))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _answer(invalid_field(error.errors()))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return _answer(plain_failure(error.status_code, "http", str(error.detail)), headers=error.headers)


def _answer(failure: Failure, wait: float = 1.0, headers: Any = None) -> Response:
    return Response(
        failure.body.model_dump_json(),
        failure.status,
        {**(headers or {}), **failure_headers(failure, wait)},
        media_type="application/json",
    )
