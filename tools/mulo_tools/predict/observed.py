"""The steps of methods that a bench has measured, from the row's counts of passes and queries."""

from __future__ import annotations

from math import ceil

from mulo_engines.errors import RequestError
from mulo_runtime import AdaptiveZipAR, AutoRegressive, Method, MuloSD, ZipAR
from mulo_runtime.settings import Chain

from mulo_tools.bench.report import Row, row_method
from mulo_tools.predict.generator import Generator
from mulo_tools.predict.schedules import (
    MuloCounts,
    Passes,
    head_passes,
    mulo_steps,
    raster_steps,
    sequential_steps,
    verify_spans,
    zipar_widths,
)
from mulo_tools.predict.work import Step, Work

__all__ = ["row_steps"]


def row_steps(generator: Generator, row: Row) -> list[Step]:
    """Everything between a request and its image.

    Raises:
        RequestError: the row was not timed, or by a version with other methods or counts.
    """
    if row.target_passes is None:
        raise RequestError(
            "a row holds no times", found=row.method, expected="rows of a bench with --images above 0", fix="time it"
        )
    method = row_method(row)
    decoder = Step("decoder", 1, generator.tokenizer_graph("decoder"))
    return [*_token_steps(generator, method, row), decoder]


def _token_steps(generator: Generator, method: Method, row: Row) -> list[Step]:
    if isinstance(method, AutoRegressive):
        return raster_steps(generator, "target", 0, generator.guided)
    if isinstance(method, ZipAR):
        return raster_steps(generator, "target", method.window, generator.guided)
    if isinstance(method, MuloSD):
        return mulo_steps(generator, _mulo_counts(generator, method, row))
    if isinstance(method, AdaptiveZipAR):
        return _adaptive_steps(generator, row)
    if isinstance(method, Chain) and not row.drafter_passes:
        raise RequestError(
            "a row does not count the passes of its head", found=row.method, fix="time it again with this version"
        )
    return sequential_steps(generator, _passes(generator, row))


def _adaptive_steps(generator: Generator, row: Row) -> list[Step]:
    """ZipAR with the window that makes as many passes; the host draws from distributions."""
    rows, cols = generator.grid
    window = ((row.target_passes or 0.0) - cols) / max(rows - 1, 1)
    drawn = Step("host", row.target_queries or 0.0, Work(decided=generator.target.vocabulary))
    return [*raster_steps(generator, "target", max(window, 1.0), generator.guided), drawn]


def _passes(generator: Generator, row: Row) -> list[Passes]:
    """Those of the target and of its head, of methods that verify by distributions."""
    count, queries = _beyond((row.target_passes or 0.0) - 1, (row.target_queries or 0.0) - generator.prefix)
    target = Passes("target", count, queries, queries)
    if not row.drafter_passes:
        return [target]
    tokens = generator.grid[0] * generator.grid[1]
    drafting = _beyond(row.drafter_passes - 1, (row.drafter_queries or 0.0) - generator.prefix)
    return [target, *head_passes(count, tokens, *drafting)]


def _mulo_counts(generator: Generator, method: MuloSD, row: Row) -> MuloCounts:
    """What the row's means say about the rounds, beside the method's switches."""
    (rows, cols), (draft_rows, draft_cols) = generator.grid, generator.draft_grid
    step = method.rows_per_round or draft_rows
    rounds = ceil(draft_rows / step)
    by_rows = method.draft == "rows"
    seen = min(1.0, (step + 2 * method.look_ahead) / draft_rows)
    relearnt = min(1.0, (step + method.look_ahead) / draft_rows)
    drafting = 1 + len(zipar_widths(draft_rows, draft_cols, method.draft_window))
    passes = row.target_passes or 0, row.drafter_passes or 0
    queries = row.target_queries or 0, row.drafter_queries or 0
    return MuloCounts(
        rounds=rounds,
        upsampled=(rounds, seen) if by_rows else (1, 1.0),
        downsampled=(rounds - 1, relearnt) if by_rows and method.resynchronise else (0, 0.0),
        draft_window=method.draft_window,
        extra_drafter=_beyond(passes[1] - drafting, queries[1] - generator.prefix - draft_rows * draft_cols + 1),
        waves=_beyond(
            passes[0] - 1 - rounds * len(verify_spans(rows * cols // rounds)),
            queries[0] - generator.prefix - rows * cols + 1,
        ),
        guided=(
            generator.guided and method.guided in ("both", "target"),
            generator.guided and method.guided in ("both", "drafter"),
        ),
    )


def _beyond(passes: float, queries: float) -> tuple[float, float]:
    """Passes and queries beyond those that are accounted for."""
    return max(passes, 0.0), max(queries, 0.0)
