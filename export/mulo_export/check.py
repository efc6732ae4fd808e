"""Check the graph files of a bundle: valid ONNX, and every input, output and dimension as the contract declares it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from mulo_engines.engine import TensorSpec
from mulo_engines.errors import EngineMismatch
from mulo_engines.manifest import Manifest
from mulo_engines.signature import graph_signature

from mulo_export.graphs.builder import check_model, signature

__all__ = ["check_graphs"]

Declaration = tuple[str, tuple[int | str, ...]]


def check_graphs(folder: Path, manifest: Manifest) -> None:
    """Check every graph of the bundle in `folder`; no weight is read.

    A dimension that must be symbolic and was fixed by mistake runs at one size only, and one that must be fixed and
    is symbolic hides a wrong weight, so that both are refused.

    Raises:
        EngineMismatch: a graph is no valid ONNX model, or its inputs and outputs are not the contract's.
    """
    for graph in manifest.graphs:
        path = folder / graph.file
        try:
            check_model(path)
        except ValueError as error:
            raise EngineMismatch(f"{graph.file}: not a valid ONNX model", found=error) from error
        expected = graph_signature(manifest, graph.name)
        faults = list(_faults(signature(path), [*expected.inputs, *expected.outputs]))
        if faults:
            raise EngineMismatch(f"{graph.file}: not the graph of the contract", found="; ".join(faults))


def _faults(found: dict[str, Declaration], expected: list[TensorSpec]) -> Iterator[str]:
    specs = {spec.name: spec for spec in expected}
    for name in found.keys() - specs.keys():
        yield f"{name} is not part of it"
    for name, spec in specs.items():
        if name not in found:
            yield f"{name} is missing"
        elif not _same(found[name], spec):
            dtype, shape = found[name]
            yield f"{name} is {dtype} {list(shape)}, expected {spec}"


def _same(found: Declaration, spec: TensorSpec) -> bool:
    dtype, shape = found
    # Engines hold bfloat16 as its bits, for numpy has no such type.
    stored = "uint16" if dtype == "bfloat16" else dtype
    sizes = [size if isinstance(size, int) else None for size in shape]
    return np.dtype(stored) == spec.dtype and sizes == [size if isinstance(size, int) else None for size in spec.shape]
