"""Pipelines over tiny real bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_runtime import Pipeline
from mulo_runtime.graphs import GRAPHS
from pipelines import ANY_METHOD, Faults, FaultyEngine, MakePipeline


@pytest.fixture
def open_pipeline(shared_bundle: Callable[..., Path]) -> Iterator[MakePipeline]:
    """`open_pipeline(ratio=2, **arguments)`: a pipeline of one thread that is closed after the test."""
    opened: list[Pipeline] = []

    def make(ratio: int = 2, text: bool = True, **arguments: Any) -> Pipeline:
        bundle = shared_bundle(ratio=ratio, text=text)
        opened.append(Pipeline.open(bundle, **{"threads": 1, "methods": ANY_METHOD, "verify": False, **arguments}))
        return opened[-1]

    yield make
    for pipeline in opened:
        pipeline.close()


@pytest.fixture
def faulty_pipeline(shared_bundle: Callable[..., Path]) -> Iterator[tuple[Pipeline, Faults]]:
    """A pipeline of real engines whose calls can be made to fail."""
    bundle, faults = Bundle.open(shared_bundle(), verify="size"), Faults()
    backend = open_backend("onnxruntime", threads=1)
    engines: dict[str, Engine] = {name: FaultyEngine(backend.load(bundle, name), faults) for name in GRAPHS}
    with Pipeline(bundle, engines, methods=ANY_METHOD) as pipeline:
        yield pipeline, faults
