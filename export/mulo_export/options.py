"""What the user chooses about a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mulo_export.precision import Precision

__all__ = ["ExportOptions"]


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
    mulo: Mapping[str, float | int | str | bool]
    skip_parity: bool = False
    force: bool = False
