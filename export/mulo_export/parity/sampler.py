"""Parity of the two samplers, with every filter off, alone and together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from mulo_engines.manifest import ParityRecord
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from numpy.typing import NDArray

from mulo_export.describe import graph_file
from mulo_export.parity.metrics import differing_share, relative_error
from mulo_export.reference.sampler import Sampled, SamplingSettings, sample
from mulo_export.sources import Sources

__all__ = ["measure_sampler"]

_IMAGES, _ROWS = 2, 4
_SPREAD = 3.0
"""Standard deviation of the logits, about a trained model's."""
_TOLERANCE = 1e-3
_NEAR_EDGES = 0.05
"""Share of draws whose uniform number may lie so near an edge of the distribution that rounding takes it across."""


def measure_sampler(
    folder: Path, sources: Sources, pool_k_max: int, rng: np.random.Generator
) -> Iterator[ParityRecord]:
    """Compare both samplers with the reference, which sorts in float64."""
    cases = [_case(sources, settings, rng) for settings in _settings(pool_k_max)]
    table = _neighbours(sources, np.concatenate([case["candidate_ids"] for case in cases]), pool_k_max)
    expected = [_expected(case, table) for case in cases]
    for graph in ("sampler", "sampler_full"):
        with OnnxRuntimeEngine.load(folder / graph_file(graph), name=graph, spinning=False) as engine:
            found = [engine.run_once(case) for case in cases]
        tokens = [(a["token_ids"], b.token_ids) for a, b in zip(found, expected, strict=True)]
        yield differing_share(graph, "draws", tokens, _NEAR_EDGES)
        for name in ("candidate_prob", "candidate_mass", "probs"):
            if name in found[0]:
                pairs = [(a[name], getattr(b, name)) for a, b in zip(found, expected, strict=True)]
                yield relative_error(graph, name, pairs, _TOLERANCE)


def _settings(pool_k_max: int) -> list[SamplingSettings]:
    some = max(1, pool_k_max // 2)
    return [
        SamplingSettings(),
        SamplingSettings(guidance_scale=3.0, temperature=0.7, pool_k=some),
        SamplingSettings(top_k=10, pool_k=pool_k_max),
        SamplingSettings(top_p=0.6, pool_k=some),
        SamplingSettings(guidance_scale=2.0, temperature=1.3, top_k=20, top_p=0.8, pool_k=some),
        SamplingSettings(temperature=0.0, pool_k=some),
    ]


def _case(sources: Sources, settings: SamplingSettings, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    batch = _IMAGES * (2 if settings.guidance_scale > 1 else 1)
    vocabulary = sources.vq.config.vocabulary
    logits = rng.standard_normal((batch, _ROWS, vocabulary), np.float32) * np.float32(_SPREAD)
    candidates = rng.integers(vocabulary, size=(_IMAGES, _ROWS))
    candidates[:, ::2] = logits[:_IMAGES, ::2].argmax(axis=-1)
    scalars = asdict(settings).items()
    return {
        "logits": logits,
        "candidate_ids": candidates,
        "uniforms": rng.random((_IMAGES, _ROWS), np.float32),
        **{name: np.array(value, np.float32 if isinstance(value, float) else np.int64) for name, value in scalars},
    }


def _expected(case: dict[str, NDArray[Any]], table: NDArray[np.int64]) -> Sampled:
    names = ("guidance_scale", "temperature", "top_k", "top_p", "pool_k")
    settings = SamplingSettings(**{name: case[name].item() for name in names})
    return sample(case["logits"], case["candidate_ids"], case["uniforms"], settings, table)


def _neighbours(sources: Sources, candidates: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The nearest codes [V, count] of `candidates`, itself first; the rows of other codes are not filled."""
    codebook = np.asarray(sources.vq.file.array("quantize.embedding.weight"), np.float64)
    codebook /= np.linalg.norm(codebook, axis=1, keepdims=True)
    table = np.zeros((len(codebook), count), np.int64)
    for code in np.unique(candidates):
        cosines = codebook @ codebook[code]
        cosines[code] = np.inf
        table[code] = np.argsort(-cosines, kind="stable")[:count]
    return table
