"""Sampling in plain numpy, by sorting, in float64: what the sampler's graph must reproduce without a sort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sampled", "SamplingSettings", "distribution", "sample"]

Floats = NDArray[np.float64]
Tokens = NDArray[np.int64]

_COLDEST = 1e-5


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """The sampler's scalars; the defaults are all off."""

    guidance_scale: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    pool_k: int = 1


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was drawn.

    Attributes:
        token_ids: [N, R].
        candidate_prob: [N, R] the candidates' own probabilities.
        candidate_mass: [N, R] those of their `pool_k` nearest codes together.
        probs: [N, R, V].
    """

    token_ids: Tokens
    candidate_prob: Floats
    candidate_mass: Floats
    probs: Floats


def sample(
    logits: NDArray[np.float32],
    candidate_ids: Tokens,
    uniforms: NDArray[np.float32],
    settings: SamplingSettings,
    neighbours: Tokens,
) -> Sampled:
    """Draw one token a row by inverse CDF, and look at the candidates.

    Args:
        logits: [B, R, V], B = 2 N with guidance, conditional half first, else N.
        candidate_ids: [N, R].
        uniforms: [N, R] in [0, 1).
        settings: the scalars.
        neighbours: [V, K] the nearest codes of every code, itself first.
    """
    probs = distribution(logits, len(candidate_ids), settings)
    cumulative = probs.cumsum(axis=-1)
    beyond = cumulative > uniforms[..., None] * cumulative[..., -1:]
    near = np.take_along_axis(probs, neighbours[candidate_ids], axis=-1)
    mass = near[..., : settings.pool_k].sum(axis=-1)
    return Sampled(beyond.argmax(axis=-1), near[..., 0], mass, probs)


def distribution(logits: NDArray[np.float32], images: int, settings: SamplingSettings) -> Floats:
    """Guidance, temperature, top-k, top-p and softmax, in LlamaGen's order; [N, R, V] float64.

    Raises:
        ValueError: the batch is neither `images` nor twice that.
    """
    if len(logits) not in (images, 2 * images):
        raise ValueError(f"{len(logits)} rows of logits for {images} images")
    scores = logits.astype(np.float64)
    conditional, null = scores[:images], scores[-images:]
    guided = null + (conditional - null) * settings.guidance_scale
    if settings.temperature <= 0:
        one_hot: Floats = np.equal(np.arange(guided.shape[-1]), guided.argmax(axis=-1)[..., None]).astype(np.float64)
        return one_hot
    scores = guided / max(settings.temperature, _COLDEST)
    if settings.top_k > 0:
        scores = _largest(scores, settings.top_k)
    probs = _softmax(scores)
    return _nucleus(probs, settings.top_p) if settings.top_p < 1 else probs


def _largest(scores: Floats, count: int) -> Floats:
    ranked = np.sort(scores, axis=-1)[..., ::-1]
    limit = ranked[..., min(count, scores.shape[-1]) - 1, None]
    return np.where(scores < limit, -np.inf, scores)


def _nucleus(probs: Floats, mass: float) -> Floats:
    """Keep the likeliest tokens up to the first that brings them past `mass`, and all that equal it."""
    ranked = np.sort(probs, axis=-1)[..., ::-1]
    before = ranked.cumsum(axis=-1) - ranked
    limit = np.where(before <= mass, ranked, np.inf).min(axis=-1, keepdims=True)
    kept = np.where(probs >= limit, probs, 0.0)
    rescaled: Floats = kept / kept.sum(axis=-1, keepdims=True)
    return rescaled


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probs: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return probs
