"""The passes that every method makes for one image, from its settings and what it accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mulo_engines.buckets import query_bucket, slot_bucket

from mulo_tools.predict.generator import Generator
from mulo_tools.predict.work import Step

__all__ = [
    "WIDEST",
    "Chain",
    "MuloCounts",
    "Passes",
    "chain_steps",
    "head_passes",
    "jacobi_steps",
    "mulo_steps",
    "raster_steps",
    "sequential_steps",
    "verify_spans",
    "zipar_widths",
]

WIDEST = 256
"""Queries of one pass at most, as a lane has it by default; wider spans are split."""
_UNBOUND = 2**31
_PARTS = 8
"""Lengths of a growing log that stand for all of them."""


@dataclass(frozen=True, slots=True)
class MuloCounts:
    """What an image of MuLo-SD takes beside its settings.

    Attributes:
        rounds: rounds.
        upsampled: passes of the upsampler, and the share of the image's rows in each.
        downsampled: the same of the downsampler.
        draft_window: ZipAR window of the drafter; 0 drafts serially.
        extra_drafter: passes and queries of the drafter beyond drafting: those that take in verified tokens.
        waves: passes of the target that resample, and their queries.
        guided: whether the target and the drafter decode a null half.
    """

    rounds: int
    upsampled: tuple[int, float]
    downsampled: tuple[int, float]
    draft_window: int
    extra_drafter: tuple[float, float]
    waves: tuple[float, float]
    guided: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Chain:
    """Speculative decoding by a head of one layer on the target's hidden states (EAGLE, LANTERN, COOL-SD).

    Attributes:
        depth: passes of the head for one of the target.
        nodes: candidates that one pass of the target verifies.
        accepted: tokens that a pass of the target yields on average.
    """

    depth: int
    nodes: int
    accepted: float


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of a model that verifies or drafts by distributions, without the condition's.

    Attributes:
        role: "target" or "head".
        count: passes.
        queries: all their queries.
        drawn: those whose distributions the host reads.
    """

    role: str
    count: float
    queries: float
    drawn: float


def zipar_widths(rows: int, cols: int, window: float) -> list[int]:
    """How many rows are open in every pass after the first token; C + (R-1) W - 1 passes.

    A `window` that is no whole number is one on average: rows open behind the one above by that many tokens or one
    fewer.
    """
    lag = min(window, cols) if window else cols
    last = round(cols + (rows - 1) * lag)
    return [sum(row * lag <= step < row * lag + cols for row in range(rows)) for step in range(1, last)]


def raster_steps(generator: Generator, role: str, window: float, guided: bool) -> list[Step]:
    """Plain decoding (window 0) or ZipAR of the grid of `role`, without pixels."""
    halves, prefix = 1 + guided, generator.prefix
    rows, cols = (generator.model(role).record.rows, generator.model(role).record.cols)
    filled, sizes = prefix, Counter[tuple[int, int]]()
    for width in zipar_widths(rows, cols, window):
        filled += width
        sizes[query_bucket(width), slot_bucket(filled, _UNBOUND)] += 1
    return [
        *_pass(generator, role, 1, halves, prefix, slot_bucket(prefix, _UNBOUND), 1),
        *(
            step
            for (queries, slots), count in sizes.items()
            for step in _pass(generator, role, count, halves, queries, slots, queries)
        ),
    ]


def mulo_steps(generator: Generator, counts: MuloCounts) -> list[Step]:
    """Drafting, upsampling, verifying and resampling, without the final pixels."""
    target_halves, drafter_halves = (1 + guided for guided in counts.guided)
    return [
        *raster_steps(generator, "drafter", counts.draft_window, counts.guided[1]),
        *_average(generator, "drafter", drafter_halves, *counts.extra_drafter),
        Step("upsampler", counts.upsampled[0], generator.tokenizer_graph("upsampler", counts.upsampled[1])),
        Step("downsampler", counts.downsampled[0], generator.tokenizer_graph("downsampler", counts.downsampled[1])),
        *_pass(generator, "target", 1, target_halves, generator.prefix, slot_bucket(generator.prefix, _UNBOUND), 1),
        *_verifying(generator, target_halves, counts.rounds),
        *_average(generator, "target", target_halves, *counts.waves),
    ]


def _verifying(generator: Generator, halves: int, rounds: int) -> Iterable[Step]:
    """Every candidate once, over a log that grows with them."""
    rows, cols = generator.grid
    filled = generator.prefix
    for queries in rounds * verify_spans(rows * cols // rounds):
        filled += queries
        yield from _pass(generator, "target", 1, halves, queries, slot_bucket(filled, _UNBOUND), queries)


def chain_steps(generator: Generator, chain: Chain) -> list[Step]:
    """Passes of the target over the nodes of a tree, each after `depth` passes of its head."""
    tokens = generator.grid[0] * generator.grid[1]
    rounds = tokens / chain.accepted
    verified, drafted = rounds * (chain.nodes + 1), rounds * chain.nodes
    target = Passes("target", rounds, verified, verified)
    return sequential_steps(generator, [target, *head_passes(rounds, tokens, rounds * chain.depth, tokens + drafted)])


def head_passes(rounds: float, tokens: float, count: float, queries: float) -> list[Passes]:
    """A head's passes: in every round one reads what was decided and drafts from its end, and the rest draft on.

    Args:
        rounds: rounds of drafting and verifying.
        tokens: what is decided altogether, and read once.
        count: passes of the head.
        queries: all their queries.
    """
    drafted = max(queries - tokens, 0.0)
    return [Passes("head", rounds, tokens, rounds), Passes("head", max(count - rounds, 0.0), drafted, drafted)]


def jacobi_steps(generator: Generator, passes: float, window: int) -> list[Step]:
    """Passes of the target over a window of tokens that are drafted by the pass before."""
    return sequential_steps(generator, [Passes("target", passes, passes * window, passes * window)])


def sequential_steps(generator: Generator, groups: Sequence[Passes]) -> list[Step]:
    """Verification by distributions: every model reads the condition, then its `groups` over a log that grows."""
    halves, prefix = 1 + generator.guided, generator.prefix
    return [
        *(
            step
            for role in dict.fromkeys(group.role for group in groups)
            for step in _pass(generator, role, 1, halves, prefix, slot_bucket(prefix, _UNBOUND), 1)
        ),
        *(step for group in groups for step in _growing(generator, group, halves)),
    ]


def _growing(generator: Generator, group: Passes, halves: int) -> Iterable[Step]:
    """Passes that share their queries evenly, while the log fills with the image."""
    if group.count == 0:
        return
    record = generator.model(group.role).record
    queries, drawn = (max(1, round(total / group.count)) for total in (group.queries, group.drawn))
    for part in range(_PARTS):
        filled = generator.prefix + record.rows * record.cols * (2 * part + 1) // (2 * _PARTS)
        slots = slot_bucket(filled, _UNBOUND)
        count = group.count / _PARTS
        yield from _pass(generator, group.role, count, halves, query_bucket(queries), slots, drawn, decided=True)


def _pass(
    generator: Generator,
    role: str,
    count: float,
    halves: int,
    queries: int,
    slots: int,
    logits: int,
    *,
    decided: bool = False,
) -> Iterable[Step]:
    """Passes of a model, and the draws that follow them, whose distributions the host may want to see."""
    yield Step(role, count, generator.transformer(role, halves, queries, slots, logits))
    yield Step("sampler", count, generator.sampler(halves, logits, decided=decided))


def _average(generator: Generator, role: str, halves: int, count: float, queries: float) -> Iterable[Step]:
    """So many passes over a cache that holds the whole grid, whose widths are spread geometrically about their mean.

    One in `mean` passes then has one query, and the others `mean` + 1 on average.
    """
    if count == 0:
        return
    record = generator.model(role).record
    full = slot_bucket(generator.prefix + record.rows * record.cols, _UNBOUND)
    mean = max(1.0, queries / count)
    yield from _pass(generator, role, count / mean, halves, 1, full, 1)
    if mean > 1:
        width = query_bucket(round(mean + 1))
        yield from _pass(generator, role, count * (1 - 1 / mean), halves, width, full, width)


def verify_spans(queries: int) -> list[int]:
    """The passes that a span of queries is split into."""
    whole, rest = divmod(queries, WIDEST)
    return [WIDEST] * whole + ([query_bucket(rest)] if rest else [])
