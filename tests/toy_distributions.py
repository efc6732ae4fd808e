"""Chains over a toy vocabulary: random targets and drafters that are known exactly, and what a rule makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from mulo_runtime.acceptance.chain_rule import ChainRule, verify_chain
from mulo_runtime.acceptance.distributions import draw
from numpy.typing import NDArray

__all__ = [
    "Toy",
    "neighbours",
    "output_distribution",
    "random_distributions",
    "simulate",
    "target_distribution",
    "total_variation",
]

Probabilities = NDArray[np.float32]


def random_distributions(rng: np.random.Generator, *shape: int, sharpness: float = 1.5) -> Probabilities:
    """Random distributions along the last axis."""
    weights = np.exp(sharpness * rng.standard_normal(shape))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


class Toy:
    """A target and a drafter of chains of `length` tokens; both may depend on all tokens before.

    Args:
        vocabulary: V.
        length: L, tokens drafted.
        seed: which random pair.
        apart: how far the drafter is from the target; 0 makes them equal, 1 independent.
    """

    def __init__(self, vocabulary: int, length: int, seed: int = 0, apart: float = 0.5) -> None:
        self.vocabulary, self.length = vocabulary, length
        self._seed, self._apart = seed, apart
        self._known: dict[tuple[int, ...], tuple[Probabilities, Probabilities]] = {}

    def target(self, prefix: Sequence[int]) -> Probabilities:
        """P of the token behind `prefix`."""
        return self._pair(tuple(prefix))[0]

    def draft(self, prefix: Sequence[int]) -> Probabilities:
        """Q of the token behind `prefix`."""
        return self._pair(tuple(prefix))[1]

    def chains(self, length: int) -> Iterator[tuple[int, ...]]:
        """All sequences of `length` tokens."""
        return product(range(self.vocabulary), repeat=length)

    def _pair(self, prefix: tuple[int, ...]) -> tuple[Probabilities, Probabilities]:
        if prefix not in self._known:
            rng = np.random.default_rng([self._seed, len(prefix), *prefix])
            target, other = random_distributions(rng, 2, self.vocabulary)
            mixed = target ** (1 - self._apart) * other**self._apart
            self._known[prefix] = target, mixed / mixed.sum()
        return self._known[prefix]


def output_distribution(rule: ChainRule, toy: Toy) -> NDArray[np.float64]:
    """Probabilities of all sequences of L + 1 tokens that come out of one round, the target going on behind it; exact.

    Shape [V] * (L + 1). What follows a replacement or the bonus is drawn from the target.
    """
    out = np.zeros((toy.vocabulary,) * (toy.length + 1))
    for sequence in toy.chains(toy.length + 1):
        out[sequence] = _probability(rule, toy, sequence)
    return out


def target_distribution(toy: Toy) -> NDArray[np.float64]:
    """Probabilities of all sequences of L + 1 tokens under the target."""
    out = np.zeros((toy.vocabulary,) * (toy.length + 1))
    for sequence in toy.chains(toy.length + 1):
        out[sequence] = _continued(toy, sequence, 0)
    return out


def total_variation(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """Half the sum of absolute differences."""
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).sum() / 2)


def simulate(rule: ChainRule, toy: Toy, rounds: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run the runtime's own verification.

    Returns:
        first: the first token of every round; [rounds].
        accepted: how many drafted tokens were accepted; [rounds].
    """
    rng = np.random.default_rng(seed)
    first, accepted = np.empty((2, rounds), np.int64)
    scratch = np.empty(toy.vocabulary, np.float32)
    for number in range(rounds):
        tokens: list[int] = []
        for _ in range(toy.length):
            tokens.append(draw(toy.draft(tokens).copy(), rng.random()))
        prefixes = [tokens[:depth] for depth in range(toy.length)]
        targets, drafts = (np.stack([model(prefix) for prefix in prefixes]) for model in (toy.target, toy.draft))
        trials, uniforms = rng.random((2, toy.length), np.float32)
        verdict = verify_chain(rule, targets, drafts, tokens, trials, uniforms, scratch)
        first[number] = tokens[0] if verdict.replacement is None or verdict.accepted else verdict.replacement
        accepted[number] = verdict.accepted
    return first, accepted


def neighbours(vocabulary: int, count: int) -> NDArray[np.int32]:
    """Of every token the `count` nearest on a circle."""
    steps = [step for distance in range(1, count + 1) for step in (distance, -distance)][:count]
    return ((np.arange(vocabulary)[:, None] + steps) % vocabulary).astype(np.int32)


def _probability(rule: ChainRule, toy: Toy, sequence: tuple[int, ...]) -> float:
    """Of `sequence` coming out: rejected at some depth and replaced by what it has there, or accepted throughout."""
    reached, total = 1.0, 0.0
    residual = np.empty(toy.vocabulary, np.float32)
    for depth, token in enumerate(sequence[:-1]):
        target, draft = toy.target(sequence[:depth]), toy.draft(sequence[:depth])
        for drafted in range(toy.vocabulary):
            rejected = float(draft[drafted]) * (1 - rule.acceptance(target, draft, drafted, depth))
            rule.residual(target, draft, drafted, depth, residual)
            total += reached * rejected * float(residual[token]) * _continued(toy, sequence, depth + 1)
        reached *= float(draft[token]) * rule.acceptance(target, draft, token, depth)
    return total + reached * _continued(toy, sequence, len(sequence) - 1)


def _continued(toy: Toy, sequence: tuple[int, ...], start: int) -> float:
    """The target's probability of the tokens from `start` on."""
    return float(np.prod([toy.target(sequence[:at])[sequence[at]] for at in range(start, len(sequence))]))
