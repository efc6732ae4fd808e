from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle


@pytest.mark.parametrize("ratio", [2, 4])
@pytest.mark.parametrize("text", [True, False])
def test_a_tiny_bundle_opens_and_every_graph_of_it_loads(
    shared_bundle: Callable[..., Path], ratio: int, text: bool
) -> None:
    bundle = Bundle.open(shared_bundle(ratio=ratio, text=text))
    backend = open_backend("onnxruntime", threads=1)
    names = [graph.name for graph in bundle.manifest.graphs]
    assert len(names) == 11
    for name in names:
        backend.load(bundle, name).close()
