"""Pipelines whose engines run on a device that puts everything off until it is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.deferred import DeferredEngine, DeferredStream
from mulo_engines.engine import Engine
from mulo_runtime import Pipeline
from mulo_runtime.graphs import GRAPHS
from pipelines import ANY_METHOD, Faults, FaultyEngine, MakePipeline

DEVICE_GRAPHS = (*GRAPHS, "feed")


def deferred_pipeline(path: Path, before: Callable[[], None] | None = None, **arguments: Any) -> Pipeline:
    """A pipeline of real engines on a deferred device; `before` is called as a pass of the target runs there."""
    bundle, backend = Bundle.open(path, verify="size"), open_backend("onnxruntime", threads=1)
    engines: dict[str, Engine] = {name: backend.load(bundle, name) for name in DEVICE_GRAPHS}
    if before is not None:
        engines["target"] = FaultyEngine(engines["target"], before)
    deferred: dict[str, Engine] = {name: DeferredEngine(engine) for name, engine in engines.items()}
    return Pipeline(bundle, deferred, methods=ANY_METHOD, new_stream=DeferredStream, **arguments)


@pytest.fixture
def open_device_pipeline(shared_bundle: Callable[..., Path]) -> Iterator[MakePipeline]:
    """`open_device_pipeline(ratio=2, bundle=None, **arguments)`: a pipeline on a device, closed after the test."""
    opened: list[Pipeline] = []

    def make(ratio: int = 2, bundle: Path | None = None, **arguments: Any) -> Pipeline:
        opened.append(deferred_pipeline(bundle or shared_bundle(ratio=ratio), **arguments))
        return opened[-1]

    yield make
    for pipeline in opened:
        pipeline.close()


@pytest.fixture
def faulty_device(shared_bundle: Callable[..., Path]) -> Iterator[tuple[Pipeline, Faults]]:
    """A pipeline on a device, whose passes of the target can be made to fail there."""
    faults = Faults()
    with deferred_pipeline(shared_bundle(), faults) as pipeline:
        yield pipeline, faults
