"""Services over tiny real bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mulo_runtime import Pipeline
from pipelines import ANY_METHOD
from serving import Service, serving


@pytest.fixture(scope="session")
def service(shared_bundle: Callable[..., Path]) -> Iterator[Service]:
    """Two lanes and a queue of four, shared by the tests of a session."""
    with (
        Pipeline.open(shared_bundle(), threads=1, verify=False, lanes=2, queue=4, methods=ANY_METHOD) as pipeline,
        serving(pipeline) as running,
    ):
        yield running
        running.wait_idle()
