"""What the graphs are compared on: inputs of the sizes that the loop uses, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from mulo_engines.buckets import QUERY_BUCKETS
from mulo_engines.manifest import Manifest
from mulo_runtime.defaults import default_method, default_sampling
from numpy.typing import NDArray

__all__ = ["COMPARED_GRAPHS", "Step", "steps_of"]

Arrays = Mapping[str, NDArray[Any]]
Step = tuple[str, Arrays]
"""What a step is called, and its inputs but for the cache and its mask."""

COMPARED_GRAPHS = (
    "target.condition",
    "drafter.condition",
    "target",
    "drafter",
    "sampler",
    "upsampler",
    "downsampler",
    "decoder",
)
"""The graphs that the loop runs."""

_BLOCK = 16
_SPREAD = 3.0
"""Standard deviation of logits, about a trained model's."""


def steps_of(manifest: Manifest, graph: str, seed: int) -> list[Step]:
    """The passes of `graph` that are compared, one after another over the same cache where it has one."""
    rng = np.random.default_rng(seed)
    if graph in ("target", "drafter"):
        return list(_transformer_steps(manifest, graph, rng))
    if graph == "sampler":
        return [("draws", _sampler_inputs(manifest, rng))]
    if graph.endswith(".condition"):
        return [("one image", _condition_inputs(manifest, rng))]
    model = manifest.drafter if graph == "upsampler" else manifest.target
    name = "candidate_ids" if graph == "downsampler" else "token_ids"
    return [("one image", {name: rng.integers(manifest.vocabulary, size=(1, model.rows, model.cols))})]


def _transformer_steps(manifest: Manifest, graph: str, rng: np.random.Generator) -> Iterator[Step]:
    """Prefill, verification of a block, and one step of decoding behind it, with both halves of guidance."""
    model = manifest.target if graph == "target" else manifest.drafter
    prefix, room = manifest.condition.length, model.rows * model.cols - 1
    block = max(bucket for bucket in QUERY_BUCKETS if bucket <= _BLOCK and bucket < room)
    embeds = rng.standard_normal((2, prefix, model.dim), np.float32)
    start = 0
    for label, queries in (("prefill", prefix), (f"{block} queries", block), ("1 query", 1)):
        places, rows = np.arange(start, start + queries), np.arange(queries)
        yield (
            label,
            {
                "cond_embeds": embeds if start == 0 else embeds[:, :0],
                "token_ids": rng.integers(manifest.vocabulary, size=(2, queries if start else 0)),
                "position_ids": np.tile(places, (2, 1)),
                "write_index": np.full(2, start),
                "logit_rows": np.tile(rows if start else rows[-1:], (2, 1)),
            },
        )
        start += queries


def _sampler_inputs(manifest: Manifest, rng: np.random.Generator) -> Arrays:
    sampling = default_sampling(manifest)
    logits = rng.standard_normal((2 if sampling.guided else 1, _BLOCK, manifest.vocabulary), np.float32)
    return {
        "logits": logits * np.float32(_SPREAD),
        "candidate_ids": rng.integers(manifest.vocabulary, size=(1, _BLOCK)),
        "uniforms": rng.random((1, _BLOCK), np.float32),
        "guidance_scale": np.array(sampling.guidance_scale),
        "temperature": np.array(sampling.temperature),
        "top_k": np.array(sampling.top_k),
        "top_p": np.array(sampling.top_p),
        "pool_k": np.array(min(default_method(manifest).pool_k, manifest.pool_k_max)),
    }


def _condition_inputs(manifest: Manifest, rng: np.random.Generator) -> Arrays:
    record = manifest.condition
    if record.kind == "class":
        return {"class_id": rng.integers(record.classes or 1, size=1)}
    if record.kind == "ta_tok":
        return {"ta_tok_codes": rng.integers(record.codes or 1, size=(1, record.length))}
    return {"text_features": rng.standard_normal((1, record.length, record.feature_size or 1), np.float32)}
