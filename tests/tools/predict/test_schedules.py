"""The passes that a schedule lists are those that the loop makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from mulo_engines.errors import RequestError
from mulo_runtime import (
    PJD,
    SJD,
    AdaptiveZipAR,
    AutoRegressive,
    Method,
    MuloSD,
    Pipeline,
    Request,
    Speculative,
    ZipAR,
)
from mulo_runtime.conditions import example_condition
from mulo_tools.bench.report import Row
from mulo_tools.bench.rows import make_row
from mulo_tools.bench.timing import Timed
from mulo_tools.predict.ar_dtok import ar_dtok
from mulo_tools.predict.generator import Generator
from mulo_tools.predict.observed import row_steps
from mulo_tools.predict.schedules import Chain, chain_steps, verify_spans, zipar_widths
from mulo_tools.predict.work import Step

METHODS: list[Method] = [
    AutoRegressive(),
    ZipAR(2),
    MuloSD(tau=0.0),
    MuloSD(tau=2.0, draft_window=0, rows_per_round=0),
    MuloSD(tau=0.05, draft="rows", draft_window=0, rows_per_round=2),
    AdaptiveZipAR(2),
    SJD(jacobi_window=4),
    PJD(window=2, jacobi_window=2),
    Speculative(length=3),
    Speculative(length=3, tree="static"),
    Speculative(length=3, tree="dynamic"),
]


def passes(steps: Sequence[Step], engine: str) -> float:
    return sum(step.count for step in steps if step.engine == engine)


@pytest.fixture(scope="module")
def measured(measured_bundle: Path) -> dict[Method, Row]:
    """A row for every method, of one image."""
    with Pipeline.open(measured_bundle, threads=1, methods=METHODS) as pipeline:
        condition = example_condition(pipeline.bundle.manifest.condition)
        results = {method: pipeline.generate(Request(condition, 3, method)) for method in METHODS}
    timed = [Timed(method, 3, 1.0, 1.0, result.statistics) for method, result in results.items()]
    return {method: make_row(method, 2, timed, [], {}) for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_a_schedule_has_the_passes_that_were_counted(
    generator: Generator, measured: dict[Method, Row], method: Method
) -> None:
    row = measured[method]
    steps = row_steps(generator, row)
    assert passes(steps, "target") == pytest.approx(row.target_passes)
    assert passes(steps, "drafter") + passes(steps, "head") == pytest.approx(row.drafter_passes)
    assert passes(steps, "sampler") == pytest.approx(sum(passes(steps, name) for name in ("target", "drafter", "head")))
    assert passes(steps, "decoder") == 1


@pytest.mark.parametrize("method", METHODS)
def test_the_host_decides_by_a_distribution_of_every_query_where_a_method_verifies_by_them(
    generator: Generator, measured: dict[Method, Row], method: Method
) -> None:
    row = measured[method]
    decided = sum(step.count * step.work.decided for step in row_steps(generator, row)) / generator.target.vocabulary
    if isinstance(method, AutoRegressive | ZipAR | MuloSD):
        assert decided == 0
    else:
        queries = (row.target_queries or 0) + (row.drafter_queries or 0)
        assert 0.5 * queries < decided < 1.2 * queries


def test_a_row_that_was_not_timed_has_no_schedule(generator: Generator) -> None:
    with pytest.raises(RequestError, match="no times"):
        row_steps(generator, Row(method="ar", ratio=2, settings={}, images=4))


@pytest.mark.parametrize(("rows", "cols", "window"), [(8, 8, 2), (32, 32, 16), (4, 6, 9), (3, 5, 0)])
def test_every_token_behind_the_first_is_drawn_once(rows: int, cols: int, window: int) -> None:
    widths = zipar_widths(rows, cols, window)
    assert sum(widths) == rows * cols - 1
    assert len(widths) == cols + (rows - 1) * (min(window, cols) or cols) - 1


def test_a_long_verification_is_split_as_a_lane_splits_it() -> None:
    assert verify_spans(1024) == [256] * 4
    assert verify_spans(300) == [256, 48]


def test_a_chain_makes_a_pass_of_the_target_for_every_accepted_length() -> None:
    generator = ar_dtok(512)
    steps = chain_steps(generator, Chain(depth=5, nodes=25, accepted=2.0))
    assert passes(steps, "target") == 1 + 512
    assert passes(steps, "head") == 1 + 5 * 512
