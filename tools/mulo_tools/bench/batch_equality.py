"""`mulo bench-batch`: how often an image of a batch is another than the one decoded alone, by method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from mulo_runtime import Method, Pipeline, Result
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

from mulo_tools.bench.cases import Case, cases_of
from mulo_tools.bench.methods import chosen_methods, method_title

__all__ = ["Equality", "batch_command", "compare_batches"]


@dataclass(frozen=True, slots=True)
class Equality:
    """What was compared of one method.

    Attributes:
        images: images decoded alone and in a batch.
        different: those of them with a token that differs.
        draws: tokens up to the first that differs, that one included: what follows it has another past.
        seconds_alone: of an image decoded alone, on average.
        seconds_together: likewise, in a batch.
    """

    images: int
    different: int
    draws: int
    seconds_alone: float
    seconds_together: float

    @property
    def rate(self) -> float:
        """Share of draws that rounding takes across an edge of the distribution."""
        return self.different / self.draws


def compare_batches(alone: Pipeline, together: Pipeline, batches: Sequence[Sequence[Case]], method: Method) -> Equality:
    """Decode the cases of `batches` one by one and batch by batch.

    Args:
        alone: decodes one image at once.
        together: decodes as many images at once as the batches have.
        batches: cases, each with a prompt and a seed of its own.
        method: of all of them.
    """
    singles, batched = list[Result](), list[Result]()
    for batch in batches:
        requests = [case.request(method) for case in batch]
        singles += [alone.generate(request) for request in requests]
        batched += together.generate_batch(requests)
    same = [_equal_tokens(one, other) for one, other in zip(singles, batched, strict=True)]
    tokens = singles[0].tokens.size
    return Equality(
        images=len(singles),
        different=sum(count < tokens for count in same),
        draws=sum(min(count + 1, tokens) for count in same),
        seconds_alone=sum(result.statistics.seconds for result in singles) / len(singles),
        # The time of a batch is told with each of its images.
        seconds_together=sum(result.statistics.seconds / len(batches[0]) for result in batched) / len(batched),
    )


@click.command("bench-batch")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--images", default=4, show_default=True, type=click.IntRange(2), help="Images of a batch.")
@click.option("--batches", default=4, show_default=True, type=click.IntRange(1), help="Batches compared.")
@click.option("--method", "specs", multiple=True, help='Such as "mulo-sd tau=0.1"; repeatable  [default: a set]')
@click.option("--threads", default=0, type=click.IntRange(0), help="Threads of an engine call; 0 is all cores.")
def batch_command(bundle: Path, images: int, batches: int, specs: tuple[str, ...], threads: int) -> None:
    """Compare images of a batch, each with a prompt of its own, with the same images decoded alone."""
    with Pipeline.open(bundle, threads=threads) as opened:
        methods = chosen_methods(opened.bundle.manifest, specs)
    cases = cases_of("tune", images * batches)
    grouped = [cases[first : first + images] for first in range(0, len(cases), images)]
    headings = ("images", "different", "draws", "rate", "s alone", "s batched")
    table = Table("method", *(Column(name, justify="right") for name in headings), title=f"batches of {images}")
    for method, equality in _compared(bundle, images, grouped, methods, threads):
        seconds = equality.seconds_alone, equality.seconds_together
        counts = equality.images, equality.different, equality.draws
        table.add_row(method_title(method), *map(str, counts), f"{equality.rate:.1e}", *(f"{s:.3f}" for s in seconds))
    Console().print(table)


def _compared(
    bundle: Path, images: int, batches: Sequence[Sequence[Case]], methods: Sequence[Method], threads: int
) -> Iterator[tuple[Method, Equality]]:
    with (
        Pipeline.open(bundle, threads=threads, methods=methods) as alone,
        Pipeline.open(bundle, threads=threads, methods=methods, images=images) as together,
    ):
        for method in track(methods, "comparing", console=Console(stderr=True)):
            yield method, compare_batches(alone, together, batches, method)


def _equal_tokens(one: Result, other: Result) -> int:
    """Tokens in raster order before the first that differs."""
    different = np.flatnonzero(one.tokens != other.tokens)
    return int(different[0]) if len(different) else one.tokens.size
