"""Parity of a target's EAGLE head: prefill, drafting and drafting anew against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from mulo_engines.manifest import ParityRecord

from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.graph_writer import write_eagle
from mulo_export.parity.transformer import compare_steps, first_caches, load, random_steps, run_steps, runnable
from mulo_export.precision import PRECISIONS, Precision
from mulo_export.reference.eagle import ReferenceEagle
from mulo_export.sources import Sources, Transformer

__all__ = ["measure_eagle"]


def measure_eagle(
    folder: Path, sources: Sources, precision: Precision, rng: np.random.Generator
) -> Iterator[ParityRecord]:
    """Compare the head's graph, where there is one, with the reference, which reads the checkpoints."""
    head = sources.eagle
    if head is None:
        return
    config = head.config
    prefix = rng.standard_normal((2, config.prefix, config.dim), np.float32)
    steps = [
        {**step, "previous_hidden": rng.standard_normal((*step["position_ids"].shape, config.dim), np.float32)}
        for step in random_steps(config, prefix, rng)
    ]
    expected = ReferenceEagle(config, head.file, sources.target.file).run_steps(steps, first_caches(steps, config))
    written = runnable(folder, ["eagle", "target"], partial(_write, head=head), precision)
    with written as (place, dtype), load(place, "eagle") as engine:
        found = run_steps(engine.run_once, steps, config, dtype)
    yield from compare_steps("eagle", found, expected, PRECISIONS[precision].tolerance)


def _write(place: Path, weights: Mapping[str, TensorFile], *, head: Transformer) -> None:
    write_eagle(place, head, weights["eagle"], weights["target"])
