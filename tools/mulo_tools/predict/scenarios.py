"""What methods accept on AR-DTok-LP: unknown, so published and measured shares stand in, each with its source.

Nobody has published the waves, accept maps or accepted lengths of these models at these sizes. Rows "as published" take
as many passes as the published speed-up stands for, which was timed where a pass takes the same time whatever it holds.
Rows "as measured here" take the shares of the reference family, whose pictures are simpler; waves grow with the side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mulo_engines.cache_slots import model_buffers, target_slots
from mulo_runtime import MuloSD

from mulo_tools.predict.ar_dtok import ar_dtok
from mulo_tools.predict.generator import Generator
from mulo_tools.predict.schedules import (
    WIDEST,
    Chain,
    MuloCounts,
    chain_steps,
    jacobi_steps,
    mulo_steps,
    raster_steps,
    zipar_widths,
)
from mulo_tools.predict.work import Step

__all__ = ["PUBLISHED_PLAIN_SECONDS", "Scenario", "scenarios"]

PUBLISHED_PLAIN_SECONDS = {512: 18.0, 1024: 80.0}
"""Plain decoding of Tar-1.5B on an A100 (MuLo-SD, arXiv 2601.05149): 18 to 20 ms a step, in PyTorch."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A method, what it is assumed to accept, and what that is taken from.

    Attributes:
        method: the method and its settings.
        source: where its number of passes comes from.
        published: the published speed-up that belongs to it; None where there is none for a model of this kind.
        steps: the passes of one image.
    """

    method: str
    source: str
    published: float | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Shares:
    """Waves of a whole-image round as a multiple of the grid's side, and resampled tokens as a share of all."""

    waves: float
    resampled: float


_PUBLISHED_MULO = {512: (("Tar-1.5B", 1.94), ("Tar-7B", 2.03)), 1024: (("Tar-1.5B", 3.90), ("Tar-7B", 5.33))}
_PUBLISHED_ZIPAR = {512: 1.88, 1024: 3.65}
_MEASURED = {512: _Shares(3.5 / 16, 0.068), 1024: _Shares(2.9 / 32, 0.022)}
"""The reference family's defaults at ratios 2 and 4."""
_SIMULATED = _Shares(135 / 64, 0.35)
"""One rejection in a hundred, placed independently, radius 3, window 4 inside islands."""
_CHAINS = (
    ("EAGLE-1", Chain(5, 25, 2.42), 2.03),
    ("LANTERN++, lambda 2, k 10", Chain(5, 25, 2.67), 2.15),
    ("COOL-SD, delta 1.1", Chain(5, 25, 2.73), 2.27),
    ("COOL-SD, delta 2", Chain(5, 25, 3.34), 2.72),
)
"""Accepted lengths on LlamaGen-XL (COOL-SD, arXiv 2601.09212, table 1); a static tree of 25 nodes, five deep."""
_SJD_STEPS = 2.2
"""Fewer passes than tokens on Lumina-mGPT (arXiv 2410.01699)."""
_PJD = {512: (4.81, 4.19), 1024: (6.9, None)}
"""The same, and the published speed-up, of PJD (arXiv 2606.05703): LlamaGen-XL at 512 px, and what it tells of 1024."""
_SERIAL, _WINDOW = 0, 4


def scenarios(px: int, *, filled: bool) -> list[Scenario]:
    """The methods to compare at `px`, plain decoding first.

    Args:
        px: one of `SIZES`.
        filled: attention reads what is filled; else the whole cache of a compiled engine, which holds what the method
            may need at most.
    """
    generator = ar_dtok(px)
    if filled:
        generator = replace(generator, slots=None)
    methods = [*_raster(generator, px), *_mulo(generator, px), *_chains(generator), *_jacobi(generator, px)]
    pixels = Step("decoder", 1, generator.tokenizer_graph("decoder"))
    return [replace(method, steps=(*method.steps, pixels)) for method in methods]


def _raster(generator: Generator, px: int) -> Iterator[Scenario]:
    yield Scenario("plain decoding", "exact", 1.0, tuple(raster_steps(generator, "target", 0, True)))
    for window in (16, 8, 4):
        published = _PUBLISHED_ZIPAR[px] if window == 16 else None
        steps = raster_steps(generator, "target", window, True)
        yield Scenario(f"ZipAR, window {window}", "exact", published, tuple(steps))


def _mulo(generator: Generator, px: int) -> Iterator[Scenario]:
    roomy = _with_scratch(generator)
    tokens, side = generator.grid[0] * generator.grid[1], generator.grid[0]
    drafted = 1 + len(zipar_widths(*generator.draft_grid, _SERIAL))
    for name, speedup in _PUBLISHED_MULO[px]:
        waves = tokens / speedup - drafted - 1
        counts = _whole_image(waves, _SIMULATED.resampled * tokens, _SERIAL, (True, True))
        yield Scenario("MuLo-SD, serial draft", f"as published, {name}", speedup, tuple(mulo_steps(roomy, counts)))
    for source, shares in (("1 % rejected, simulated", _SIMULATED), ("as measured here", _MEASURED[px])):
        for draft, window in (("serial draft", _SERIAL), ("draft in window 4", _WINDOW)):
            counts = _whole_image(shares.waves * side, shares.resampled * tokens, window, (True, True))
            yield Scenario(f"MuLo-SD, {draft}", source, None, tuple(mulo_steps(roomy, counts)))
    counts = _whole_image(_MEASURED[px].waves * side, _MEASURED[px].resampled * tokens, _WINDOW, (False, True))
    method = "MuLo-SD, draft in window 4, target unguided"
    yield Scenario(method, "as measured here", None, tuple(mulo_steps(roomy, counts)))


def _chains(generator: Generator) -> Iterator[Scenario]:
    for name, chain, published in _CHAINS:
        steps = chain_steps(generator, chain)
        yield Scenario(name, f"accepts {chain.accepted}, as on LlamaGen-XL", published, tuple(steps))


def _jacobi(generator: Generator, px: int) -> Iterator[Scenario]:
    tokens = generator.grid[0] * generator.grid[1]
    fewer, published = _PJD[px]
    sjd, pjd = jacobi_steps(generator, tokens / _SJD_STEPS, 16), jacobi_steps(generator, tokens / fewer, 64)
    yield Scenario("SJD, window 16", f"{_SJD_STEPS}x fewer passes, as on Lumina", None, tuple(sjd))
    yield Scenario("PJD, 64 queries a pass", f"{fewer}x fewer passes, as published", published, tuple(pjd))


def _whole_image(waves: float, resampled: float, window: int, guided: tuple[bool, bool]) -> MuloCounts:
    """One round over the whole image."""
    return MuloCounts(
        rounds=1,
        upsampled=(1, 1.0),
        downsampled=(0, 0.0),
        draft_window=window,
        extra_drafter=(0.0, 0.0),
        waves=(waves, resampled),
        guided=guided,
    )


def _with_scratch(generator: Generator) -> Generator:
    """The target's cache as the runtime plans it for a whole-image round, with room for all that may be resampled."""
    if generator.slots is None:
        return generator
    ratio = generator.grid[0] // generator.draft_grid[0]
    filled = target_slots(MuloSD(rows_per_round=0, refresh="none", draft="image"), generator.grid, ratio)
    longer = model_buffers(generator.prefix, filled, WIDEST).slots
    return replace(generator, slots={**generator.slots, "target": longer})
