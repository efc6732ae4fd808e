"""The passes that a schedule lists are those that the loop makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from mulo_engines.errors import RequestError
from mulo_runtime import AutoRegressive, Method, MuloSD, Pipeline, Request, ZipAR
from mulo_runtime.conditions import example_condition
from mulo_tools.bench.report import Row
from mulo_tools.bench.rows import make_row
from mulo_tools.bench.timing import Timed
from mulo_tools.predict.ar_dtok import ar_dtok, eagle_head
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
    assert passes(steps, "target") == row.target_passes
    assert passes(steps, "drafter") == row.drafter_passes
    assert passes(steps, "sampler") == pytest.approx(passes(steps, "target") + passes(steps, "drafter"))
    assert passes(steps, "decoder") == 1


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
    steps = chain_steps(generator, Chain(depth=5, nodes=25, accepted=2.0), eagle_head(generator))
    assert passes(steps, "target") == 1 + 512
    assert passes(steps, "head") == 5 * 512
