"""What the user chooses about a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mulo_export.precision import Precision

__all__ = ["ExportOptions", "FamilyDefaults"]


@dataclass(frozen=True, slots=True)
class FamilyDefaults:
    """What a family recommends where the user says nothing.

    Attributes:
        sampling: sampling parameters, by the names of the runtime's `Sampling`.
        mulo: switches of MuLo-SD, by the names of the runtime's `MuloSD`; those it leaves out are the runtime's own.
    """

    sampling: Mapping[str, float | int]
    mulo: Mapping[str, float | int | str | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What the user chooses about a bundle.

    Attributes:
        precision: type of the transformers' weights.
        pool_k_max: codebook neighbours that the sampler can pool over.
        sampling: default sampling parameters, by the names of the runtime's `Sampling`.
        mulo: default switches of MuLo-SD, by the names of the runtime's `MuloSD`.
        skip_parity: publish without comparing the graphs with their references; recorded in the manifest.
        force: replace a bundle that is there already.
    """

    precision: Precision
    pool_k_max: int
    sampling: Mapping[str, float | int]
    mulo: Mapping[str, float | int | str | bool | None]
    skip_parity: bool = False
    force: bool = False
