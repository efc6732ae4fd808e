"""The engine runs of one plainly decoded image with nothing between them: the floor under any runtime."""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np
from mulo_engines.backend import Backend
from mulo_engines.buckets import slot_bucket
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Call, Engine
from mulo_engines.manifest import Manifest
from mulo_engines.signature import graph_signature

from mulo_tools.blank_buffers import blank_buffers

__all__ = ["BareSteps"]


class BareSteps:
    """Runs target and sampler once per image token, over a cache as long as plain decoding has it at that token.

    Inputs are written once and stay as they are, so nothing but `Call.run` is timed.

    Args:
        bundle: brings the graphs and the sizes.
        backend: loads the engines, set up as the pipeline's are.
    """

    def __init__(self, bundle: Bundle, backend: Backend) -> None:
        manifest = bundle.manifest
        self._target, self._sampler = (backend.load(bundle, name) for name in ("target", "sampler"))
        halves = 2 if manifest.sampling.get("guidance_scale", 1) > 1 else 1
        self._logits = np.zeros((halves, 1, manifest.vocabulary), np.float32)
        self._draw = self._bind(manifest, self._sampler, {"B": halves, "N": 1, "R": 1})
        tokens = manifest.target.rows * manifest.target.cols
        lengths = [slot_bucket(manifest.condition.length + token, sys.maxsize) for token in range(1, tokens)]
        sizes = {"B": halves, "M": 1, "C": 0, "Q": 1, "T": 1, "R": 1}
        calls = {slots: self._bind(manifest, self._target, {**sizes, "S": slots}) for slots in sorted(set(lengths))}
        self._passes: list[Call] = [calls[slots] for slots in lengths]

    @property
    def count(self) -> int:
        """Steps that `run` takes."""
        return len(self._passes)

    def run(self) -> float:
        """Run all steps; returns seconds."""
        draw = self._draw
        start = perf_counter()
        for step in self._passes:
            step.run()
            draw.run()
        return perf_counter() - start

    def close(self) -> None:
        """Free the engines."""
        self._target.close()
        self._sampler.close()

    def _bind(self, manifest: Manifest, engine: Engine, sizes: dict[str, int]) -> Call:
        """Bind blank buffers of `sizes`; the logits pass from one engine to the other."""
        buffers = blank_buffers(graph_signature(manifest, engine.name), sizes)
        return engine.bind({**buffers, "logits": self._logits})
