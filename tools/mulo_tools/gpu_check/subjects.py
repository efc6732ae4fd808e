"""The bundles that a machine is checked with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mulo_engines.bundle import Bundle
from mulo_export.bundle_writer import write_bundle
from mulo_export.checkpoints.ta_tok import TaTokConfig
from mulo_export.family_defaults import PUBLISHED, REFERENCE
from mulo_export.options import FamilyDefaults
from mulo_export.precision import Precision
from mulo_export.sources import Sources, read_reference_sources

from mulo_tools.synthetic_tar import LP, TarShape, write_random_tar

__all__ = ["SUBJECTS", "Subject", "prepare", "tar_subject"]

_WEIGHTS = Path(__file__).parents[1] / "reference" / "weights"
_POOL_K_MAX = 64


@dataclass(frozen=True, slots=True)
class Subject:
    """A bundle, and how MuLo-SD is timed on it.

    Attributes:
        read: the checkpoints, which may be written into the empty folder that is given.
        defaults: what the bundle recommends.
        precision: type of its weights.
        variants: switches of MuLo-SD, by what a table calls them.
        images: images that are compared token by token.
    """

    read: Callable[[Path], Sources]
    defaults: FamilyDefaults
    precision: Precision
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    images: int = 0


def prepare(subject: Subject, destination: Path) -> Bundle:
    """The bundle of `subject` in the folder `destination`, exported unless it lies there.

    Raises:
        MuloError: it cannot be exported, or what lies there is refused.
    """
    if not destination.exists():
        destination.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=destination.parent, prefix=".checkpoints-") as folder:
            options = subject.defaults.options(subject.precision, _POOL_K_MAX, skip_parity=True)
            write_bundle(subject.read(Path(folder)), options, destination, _ignore)
    return Bundle.open(destination, verify="size")


def tar_subject(shape: TarShape, drafter: int, target: int, precision: Precision) -> Subject:
    """A pair of AR-DTok of random weights, whose grids are `drafter` and `target` tokens wide.

    What random weights accept tells nothing, so that MuLo-SD is timed where it accepts everything and nothing.
    """
    dtype = "F16" if precision is Precision.FP16 else "F32"

    def read(folder: Path) -> Sources:
        return write_random_tar(folder, shape, drafter=drafter, target=target, dtype=dtype)

    bounds = {"all accepted": {"tau": 0.0}, "none accepted": {"tau": 2.0}}
    return Subject(read, PUBLISHED["tar"], precision, variants=bounds)


def _reference(ratio: int) -> Subject:
    def read(_: Path) -> Sources:
        return read_reference_sources(_WEIGHTS, ratio)

    return Subject(read, REFERENCE[ratio], Precision.FP32, images=2)


def _ignore(count: int) -> None:
    """Nobody watches an export that takes seconds."""
    del count


_SMALL_TA_TOK = TaTokConfig(
    codes=1024, code_size=64, projected=256, patch=256, layers=1, dim=1152, heads=12, ffn=4304, side=27
)
"""One of as many features as the published one, which runs once an image and would take longest to write."""
_LP = replace(LP, ta_tok=_SMALL_TA_TOK)
SUBJECTS: Mapping[str, Subject] = {
    "reference-64px": _reference(2),
    "reference-128px": _reference(4),
    "lp-512px": tar_subject(_LP, 16, 32, Precision.FP16),
    "lp-1024px": tar_subject(_LP, 16, 64, Precision.FP16),
}
"""The family that mulo ships, and pairs as large as Tar's published AR-DTok-LP, by name."""
