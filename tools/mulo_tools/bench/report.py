"""What a bench found, and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mulo_engines.errors import RequestError
from mulo_runtime import METHODS, Method
from pydantic import BaseModel, ConfigDict, ValidationError

from mulo_tools.machine import Machine
from mulo_tools.output import replacing

__all__ = ["Report", "Row", "read_report", "row_method", "write_report"]

_BENCH = "make it with `mulo bench BUNDLE --json REPORT`"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Row(_Record):
    """One method's figures.

    Attributes:
        method: its name.
        ratio: rows of the target's grid for one of the drafter's.
        settings: the method's switches.
        images: images that were scored; those that were timed where none was scored.
        score: share of images that show exactly the scene of their prompt.
        score_low: lower end of its 95 % Wilson interval.
        score_high: upper end.
        score_difference_low: one-sided 95 % lower bound of score minus that of plain decoding on the same cases.
        texture_distance: Frechet distance of textures to those of the tokenizer's reconstructions of real pictures.
        fid: FID of the classifier's features to those of the same reconstructions.
        kid: KID likewise.
        agreement: share of tokens that are plain decoding's of the same case.
        seconds_per_image: median of the timed images, one at a time.
        cpu_seconds_per_image: the same of the process's time on the processor: with one thread, what an idle machine
            takes.
        speedup: median over the timed cases of plain decoding's seconds by this method's.
        target_passes: passes of the target, mean of the timed images.
        target_queries: its queries.
        drafter_passes: passes of the drafter, or of the EAGLE head where that drafts.
        drafter_queries: its queries.
        accepted_share: accepted candidates among those verified.
        resampled_share: resampled tokens among those verified.
        host_share: share of the time outside the engines.
    """

    method: str
    ratio: int
    settings: dict[str, Any]
    images: int
    score: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    score_difference_low: float | None = None
    texture_distance: float | None = None
    fid: float | None = None
    kid: float | None = None
    agreement: float | None = None
    seconds_per_image: float | None = None
    cpu_seconds_per_image: float | None = None
    speedup: float | None = None
    target_passes: float | None = None
    target_queries: float | None = None
    drafter_passes: float | None = None
    drafter_queries: float | None = None
    accepted_share: float | None = None
    resampled_share: float | None = None
    host_share: float | None = None


class Report(_Record):
    """A bench.

    Attributes:
        bundle: name of the bundle's folder and the first digits of its digest.
        machine: where it ran.
        rows: one per method, plain decoding first.
    """

    bundle: str
    machine: Machine
    rows: tuple[Row, ...]


def row_method(row: Row) -> Method:
    """The method that a row is about.

    Raises:
        RequestError: this version has no such method, or not with such switches.
    """
    try:
        return METHODS[row.method](**row.settings)
    except (KeyError, TypeError) as error:
        raise RequestError(
            "a row's method is none of this version's",
            found=f"{row.method} {row.settings}",
            fix="time it again with this version",
        ) from error


def write_report(report: Report, path: Path) -> None:
    """Write `report` as JSON; the file appears whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_report(path: Path) -> Report:
    """Read what `write_report` wrote.

    Raises:
        RequestError: there is no such file, or it holds something else.
    """
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RequestError(f"{path}: the report cannot be read", found=error.strerror, fix=_BENCH) from error
    except ValidationError as error:
        first = error.errors()[0]
        found = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise RequestError(f"{path}: no report of a bench", found=found, fix=_BENCH) from error
