"""`mulo verify`: whether two backends, or two exports of the same checkpoints, compute the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import click
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.errors import ParityError
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from mulo_tools.condition_options import condition_options, condition_or_example
from mulo_tools.verify.graph_inputs import COMPARED_GRAPHS
from mulo_tools.verify.graphs import Difference, compare_graph
from mulo_tools.verify.side import Side, check_comparable
from mulo_tools.verify.tokens import TokenRow, compare_tokens

__all__ = ["verify_command"]

_FOLDER = click.Path(file_okay=False, path_type=Path)
_WIDTH = 140
"""Columns of a table that no terminal bounds."""


@click.command("verify")
@click.argument("bundle", type=_FOLDER)
@click.option("--backends", required=True, metavar="A,B", help="What runs the two sides; one name serves both.")
@click.option("--against", type=_FOLDER, help="Another export of the same checkpoints, for the second side.")
@click.option("--threads", default="0", show_default=True, metavar="A,B", help="Threads of an engine call; 0 is all.")
@click.option("--images", default=2, show_default=True, type=click.IntRange(0), help="Images compared by their tokens.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the first image.")
@click.option(
    "--edge", default=1e-4, show_default=True, type=click.FloatRange(0), help="Distance that rounding excuses."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@condition_options
def verify_command(
    bundle: Path,
    backends: str,
    against: Path | None,
    threads: str,
    images: int,
    seed: int,
    edge: float,
    as_json: bool,
    prompt: str | None,
    class_id: int | None,
    condition: Path | None,
) -> None:
    """Compare how two backends run BUNDLE: every graph on the same inputs, and images token by token.

    A graph agrees where its worst tensor is within the tolerance of the bundle's precision. Tokens agree where they are
    equal up to a draw whose number lies at an edge of the distribution, where rounding decides. Exit code 4 tells of a
    difference.
    """
    first, second = Bundle.open(bundle), Bundle.open(against or bundle)
    check_comparable(first.manifest, second.manifest)
    shown = condition_or_example(first.manifest.condition, prompt, class_id, condition)
    names, counts = _pair("--backends", backends), [_count(text) for text in _pair("--threads", threads)]
    with _load("first", first, names[0], counts[0]) as a, _load("second", second, names[1], counts[1]) as b:
        graphs = [compare_graph(a, b, graph, seed=0) for graph in COMPARED_GRAPHS]
        tokens = list(compare_tokens(a, b, shown, range(seed, seed + images), edge))
    if as_json:
        click.echo(json.dumps(_as_json((a, b), graphs, tokens), indent=2))
    else:
        _print((a, b), graphs, tokens)
    _refuse_differences((a, b), graphs, tokens)


def _load(place: str, bundle: Bundle, backend: str, threads: int) -> Side:
    name = f"{place}: {bundle.path.name} ({bundle.manifest.precision}) by {backend}"
    return Side.load(name, bundle, open_backend(backend, threads=threads))


def _pair(option: str, text: str) -> tuple[str, str]:
    """Two values that a comma parts, or one that stands for both."""
    values = text.split(",")
    if len(values) > 2 or not all(values):
        raise click.BadParameter(f"{text!r} is not one value, or two with a comma between them", param_hint=option)
    return values[0], values[-1]


def _count(text: str) -> int:
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is no number of threads", param_hint="--threads")
    return int(text)


def _as_json(sides: Sequence[Side], graphs: Sequence[Difference], tokens: Sequence[TokenRow]) -> Mapping[str, Any]:
    return {
        "sides": [side.name for side in sides],
        "graphs": [_graph_json(row) for row in graphs],
        "tokens": [{**asdict(row), "within": row.within} for row in tokens],
    }


def _graph_json(row: Difference) -> Mapping[str, Any]:
    """`row`, with null for what is not finite, which JSON has no number for."""
    value, *elements = (number if isfinite(number) else None for number in (row.value, *row.elements))
    return {**asdict(row), "value": value, "elements": elements, "within": row.within}


def _print(sides: Sequence[Side], graphs: Sequence[Difference], tokens: Sequence[TokenRow]) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    for side in sides:
        console.print(side.name, markup=False)
    console.print(_graph_table(graphs))
    if tokens:
        console.print(_token_table(tokens))


def _graph_table(rows: Sequence[Difference]) -> Table:
    numbers = (Column(heading, justify="right") for heading in ("value", "tolerance"))
    table = Table("graph", "worst tensor", "measured", *numbers, "at", "elements", "", box=SIMPLE)
    for row in rows:
        values = f"{row.value:.2g}", f"{row.tolerance:.2g}"
        place, elements = str(list(row.place)), f"{row.elements[0]:.6g}, {row.elements[1]:.6g}"
        table.add_row(row.graph, f"{row.tensor}, {row.step}", row.metric, *values, place, elements, _mark(row.within))
    return table


def _token_table(rows: Sequence[TokenRow]) -> Table:
    numbers = (Column(heading, justify="right") for heading in ("seed", "tokens", "differing"))
    table = Table("drawn by", *numbers, "first difference", "at an edge", "", box=SIMPLE)
    for row in rows:
        first, edge = "none", ""
        if (divergence := row.divergence) is not None:
            (line, column), (ours, theirs) = divergence.place, divergence.drawn
            first = f"token {divergence.index} (row {line}, column {column}): {ours}, {theirs}"
            edge = "no" if divergence.edge is None else f"within {divergence.edge:.0e}"
        cells = str(row.seed), str(row.tokens), str(row.differing), first, edge if row.judged else "not judged"
        table.add_row(row.model, *cells, _mark(row.within))
    return table


def _mark(within: bool) -> str:
    return "" if within else "[bold red]differs[/]"


def _refuse_differences(sides: Sequence[Side], graphs: Sequence[Difference], tokens: Sequence[TokenRow]) -> None:
    """Raise what differs, if anything does.

    Raises:
        ParityError: something does.
    """
    found = [f"{row.graph}: {row.metric} of {row.tensor} {row.value:.2g}" for row in graphs if not row.within]
    found += [
        f"{row.model}, seed {row.seed}: token {row.divergence.index}"
        for row in tokens
        if row.divergence is not None and not row.within
    ]
    if found:
        raise ParityError(
            f"{sides[0].name} and {sides[1].name} differ",
            found="; ".join(found),
            expected="tensors within the tolerance, and equal tokens up to a draw at an edge of its distribution",
            fix="compile the engines again; if that does not help, export with a wider precision",
        )
