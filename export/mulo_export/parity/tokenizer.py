"""Parity of the upsampler, the downsampler and the decoder on a grid of a few tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mulo_engines.manifest import ParityRecord
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from numpy.typing import NDArray

from mulo_export.codebook import normalised_codebook
from mulo_export.describe import graph_file, rounding
from mulo_export.graphs.decoder import WITNESS_SCALE
from mulo_export.parity.metrics import differing_share, largest_difference, relative_error
from mulo_export.reference.token_upsampler import ReferenceUpsampler
from mulo_export.reference.vq import ReferenceVq
from mulo_export.sources import Sources

__all__ = ["measure_tokenizer"]

_GRID = (2, 3)
"""Not square, so that rows taken for columns show."""
_NEAR_TIES = 0.05
"""Share of tokens or pixels that may lie so near an edge that rounding takes them across."""
_PIXEL_ERROR = 0.01
"""Of the sum of an image's magnitudes, about a level of 127."""


def measure_tokenizer(
    folder: Path, sources: Sources, steepness: float, rng: np.random.Generator
) -> Iterator[ParityRecord]:
    """Compare the tokenizer's graphs with the reference, which reads the checkpoint."""
    reference, ratio = ReferenceVq(sources.vq.config, sources.vq.file), sources.ratio
    rows, columns = _GRID
    tokens = rng.integers(reference.config.vocabulary, size=(1, rows, columns))
    candidates = rng.integers(reference.config.vocabulary, size=(1, rows * ratio, columns * ratio))
    (found,) = _run(folder, "upsampler", {"token_ids": tokens})
    yield differing_share(
        "upsampler", "tokens", [(found, _upsampled(sources, reference, steepness, tokens))], _NEAR_TIES
    )
    (found,) = _run(folder, "downsampler", {"candidate_ids": candidates})
    yield differing_share("downsampler", "tokens", [(found, reference.downsample(candidates, ratio))], _NEAR_TIES)
    found, witness = _run(folder, "decoder", {"token_ids": tokens})
    expected = reference.pixels(tokens, rounding(sources.target.config))
    magnitudes = np.abs(reference.decode(tokens)).sum(axis=(1, 2, 3)) * WITNESS_SCALE
    yield largest_difference("decoder", "pixels", [(found, expected)], 1)
    yield differing_share("decoder", "pixels", [(found, expected)], _NEAR_TIES)
    yield relative_error("decoder", "the witness", [(witness, magnitudes)], _PIXEL_ERROR)


def _upsampled(
    sources: Sources, tokenizer: ReferenceVq, steepness: float, tokens: NDArray[np.int64]
) -> NDArray[np.int64]:
    if sources.upsampler is None:
        return tokenizer.upsample(tokens, sources.ratio, steepness)
    codebook = normalised_codebook(sources.vq.file)
    return ReferenceUpsampler(sources.upsampler.config, sources.upsampler.file, codebook).upsample(tokens)


def _run(folder: Path, graph: str, inputs: dict[str, NDArray[Any]]) -> Iterable[NDArray[Any]]:
    """The outputs of `graph`, as it declares them."""
    with OnnxRuntimeEngine.load(folder / graph_file(graph), name=graph, spinning=False) as engine:
        return engine.run_once(inputs).values()
