"""A bundle behind Ray Serve: replicas that each hold a pool of lanes, on the CPU, a GPU or a part of one.

    serve run mulo_runtime.scale_out.ray_serve:build_app bundle=/models/r4 lanes=2 gpus=0.5 max_replicas=8

Over HTTP a replica answers as `mulo serve` does, streams, page and the token of MULO_SERVE_TOKEN included, unless it is
run with `route_prefix=None`. Or in a program, where requests, results, events and errors are those of the pipeline:

    handle = serve.run(build_app(ReplicaSettings(bundle=Path("/models/r4"))))
    result = await handle.generate.remote(Request(Prompt("a red circle on dark"), seed=7))
    async for event in handle.options(stream=True).stream.remote(request): ...

Requests wait at Ray's proxy or the handle, where every replica can take them; when `queue` of them do, the next is
refused with 503, or Ray's `BackPressureError`. One whose replica dies gets 500, or `ActorDiedError`, and Ray starts
another replica.
"""

# Ray reads the annotation of `build_app`, hence annotations are not postponed here.
import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from mulo_engines.errors import EngineError
from pydantic import BaseModel, ConfigDict, Field
from ray import serve

from mulo_runtime import Pipeline, Request, Result, StreamEvent
from mulo_runtime.service import app as service
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.served import Served

__all__ = ["Replica", "ReplicaSettings", "build_app"]


class ReplicaSettings(BaseModel):
    """What `serve run` and Serve's YAML files may say; `gpus` and `threads` are what Ray reserves for a replica."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    bundle: Path
    backend: str = "onnxruntime"
    compiled: Path | None = None
    lanes: int = Field(1, ge=1)
    queue: int = Field(16, ge=1)
    threads: int = Field(1, ge=1)
    gpus: float = Field(0, ge=0)
    min_replicas: int = Field(1, ge=0)
    max_replicas: int = Field(1, ge=1)


class Replica:
    """A pipeline in a process of its own; warm before Ray sends it requests."""

    def __init__(self, settings: ReplicaSettings) -> None:
        options, limits = settings.model_dump(include={"backend", "compiled", "threads", "lanes"}), Limits()
        # Ray sends a request for each lane, of several images over HTTP; a cancelled one holds it until its next pass.
        queue = settings.lanes * limits.images
        self._pipeline = Pipeline.open(settings.bundle, spinning=False, queue=queue, **options)
        self._pipeline.warm_up()
        token = os.environ.get("MULO_SERVE_TOKEN")
        self._served = Served(service.build_app(self._pipeline, limits, token=token))

    async def __call__(self, _: object) -> Served:
        """Answer a request over HTTP, which the service reads itself."""
        return self._served

    async def generate(self, request: Request) -> Result:
        """Make one image; a caller that cancels or goes away stops it at its next pass."""
        return await self._pipeline.generate_async(request)

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent]:
        """Make one image and show it while it grows; likewise."""
        async with aclosing(self._pipeline.stream_async(request)) as events:
            async for event in events:
                yield event

    async def check_health(self) -> None:
        """Have a lane take a step; raise what is wrong, so that Ray replaces the replica."""
        health = await asyncio.to_thread(self._pipeline.health)
        if not health.live or health.state == "failed":
            raise EngineError(
                "the replica does not work", found=health.fault or health.state, expected="a lane that steps"
            )


def build_app(settings: ReplicaSettings) -> serve.Application:
    """The application that `serve run` deploys; Ray makes as many replicas as keep about every lane at work."""
    scaling = {"min_replicas": settings.min_replicas, "max_replicas": settings.max_replicas}
    deployment = serve.deployment(
        name="mulo",
        max_ongoing_requests=settings.lanes,
        max_queued_requests=settings.queue,
        autoscaling_config={**scaling, "target_ongoing_requests": settings.lanes},
        ray_actor_options={"num_cpus": settings.threads, "num_gpus": settings.gpus},
    )(Replica)
    return deployment.bind(settings)
