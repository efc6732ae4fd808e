"""What engines do, as numbers that a machine's rates are held against."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Step", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """What one pass of an engine takes.

    Attributes:
        launches: kernels that run one after the other.
        bytes: weights, inputs, outputs and new keys and values moved, each once.
        cached: bytes of the cache that attention reads.
        products: FLOP of products of matrices, those of attention among them.
        convolutions: FLOP of convolutions.
        copied: bytes of the cache that attention of several queries copies first, where its kernel does not read it
            in place.
        several: 1 for a pass of several queries, which the host prepares in arrays; 0 for one of one query.
        elements: numbers that an exponential is taken of: in the softmax of attention and in the sampler.
        decided: probabilities that the host decides by, where a method verifies by distributions.
    """

    launches: float = 0.0
    bytes: float = 0.0
    cached: float = 0.0
    products: float = 0.0
    convolutions: float = 0.0
    copied: float = 0.0
    several: float = 0.0
    elements: float = 0.0
    decided: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """`count` passes of one engine that are alike, or that are so on average.

    Attributes:
        engine: "target", "drafter", "head", "sampler", "upsampler", "downsampler", "decoder", or "host" for none.
        count: passes.
        work: of each.
    """

    engine: str
    count: float
    work: Work
