"""How many slots of the cache log a method can fill at most."""

from __future__ import annotations

from mulo_runtime.settings import Method, MuloSD, ZipAR

__all__ = ["drafter_slots", "target_slots"]

Grid = tuple[int, int]


def target_slots(method: Method, grid: Grid, ratio: int) -> int:
    """The most slots that `method` fills behind the condition in the target's log; `grid` is the target's."""
    rows, cols = grid
    tokens = rows * cols
    if isinstance(method, MuloSD):
        round_rows = min(method.rows_per_round * ratio or rows, rows)
        # A resampled token is fed once as a predecessor, and once more where the end of its run is refreshed.
        appended = 2 * (round_rows * cols if method.refresh == "block" else tokens)
        return tokens + appended
    return tokens + (rows if isinstance(method, ZipAR) else 0)


def drafter_slots(method: Method, grid: Grid) -> int:
    """The most slots that `method` fills behind the condition in the drafter's log; `grid` is the drafter's."""
    if not isinstance(method, MuloSD):
        return 0
    rows, cols = grid
    drafted = rows * cols + rows
    if method.draft == "image" or not method.resynchronise:
        return drafted
    step = method.rows_per_round or rows
    rounds = -(-rows // step)
    return drafted + rounds * (step + method.look_ahead) * cols
