"""What the user chooses about a bundle and its engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mulo_export.precision import Precision

__all__ = ["CompileOptions", "ExportOptions", "FamilyDefaults"]


@dataclass(frozen=True, slots=True)
class FamilyDefaults:
    """What a family recommends where the user says nothing.

    Attributes:
        sampling: sampling parameters, by the names of the runtime's `Sampling`.
        mulo: switches of MuLo-SD, by the names of the runtime's `MuloSD`; those it leaves out are the runtime's own.
        examples: prompts to begin with, for a family that reads words.
        steepness: how much steeper edges of enlarged drafts become than the bicubic filter leaves them.
    """

    sampling: Mapping[str, float | int]
    mulo: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    steepness: float = 1.0

    def options(self, precision: Precision, pool_k_max: int, **choices: Any) -> ExportOptions:
        """The options of a bundle that takes all of this; `choices` are further ones of `ExportOptions`."""
        return ExportOptions(
            precision,
            pool_k_max,
            self.sampling,
            self.mulo,
            examples=self.examples,
            steepness=self.steepness,
            **choices,
        )


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What the user chooses about a bundle.

    Attributes:
        precision: type of the transformers' weights.
        pool_k_max: codebook neighbours that the sampler can pool over.
        sampling: default sampling parameters, by the names of the runtime's `Sampling`.
        mulo: default switches of MuLo-SD, by the names of the runtime's `MuloSD`.
        calibration: file of what enters the linear layers, which are then computed in codes; None keeps them out of it.
        skip_parity: publish without comparing the graphs with their references; recorded in the manifest.
        force: replace a bundle that is there already.
        examples: prompts to begin with, for bundles that read words.
        steepness: how much steeper edges of enlarged drafts become than the bicubic filter leaves them; a learned
            upsampler does without.
    """

    precision: Precision
    pool_k_max: int
    sampling: Mapping[str, float | int]
    mulo: Mapping[str, float | int | str | bool | None]
    calibration: Path | None = None
    skip_parity: bool = False
    force: bool = False
    examples: tuple[str, ...] = ()
    steepness: float = 1.0


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """For what the engines of a bundle are made.

    Attributes:
        images: N, the most images that are decoded together.
        queries: the largest number of queries of one pass.
        drafter_slots: S of the drafter's cache; None is what the bundle's recommended settings need.
        target_slots: S of the target's cache, likewise.
        drafter_short_slots: S of a second, shorter cache of the drafter, with a plan of its own; None is none.
        target_short_slots: likewise, of the target.
        engines: where the engines are put; None is inside the bundle.
    """

    images: int = 1
    queries: int = 256
    drafter_slots: int | None = None
    target_slots: int | None = None
    drafter_short_slots: int | None = None
    target_short_slots: int | None = None
    engines: Path | None = None
