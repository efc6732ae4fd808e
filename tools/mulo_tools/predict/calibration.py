"""Bench reports with the steps of their rows: what a processor's rates are fitted on and checked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mulo_engines.bundle import Bundle
from mulo_engines.errors import RequestError

from mulo_tools.bench.report import Row, read_report
from mulo_tools.bench.table import row_title
from mulo_tools.predict.fit import fit_processor
from mulo_tools.predict.generator import Generator
from mulo_tools.predict.machine import Machine
from mulo_tools.predict.observed import row_steps
from mulo_tools.predict.work import Step

__all__ = ["Checked", "Observed", "check", "observe"]

_FEWEST = 4
"""Methods that tell the rates of a processor apart: with few queries a pass and many, with a tokenizer and without."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A measured method.

    Attributes:
        name: the bundle and the method.
        steps: its passes.
        seconds: seconds per image.
    """

    name: str
    steps: Sequence[Step]
    seconds: float


@dataclass(frozen=True, slots=True)
class Checked:
    """A measured method and its prediction.

    Attributes:
        name: the bundle and the method.
        fitted: whether rates are fitted on it; its own prediction comes from those fitted on the others.
        measured: seconds per image.
        predicted: the same by the model.
    """

    name: str
    fitted: bool
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted / self.measured - 1


def observe(bundle: Path, report: Path) -> list[Observed]:
    """The timed rows of the report that `mulo bench` wrote about a bundle.

    Raises:
        MuloError: the bundle or the report cannot be read, the report is about another bundle or has no timed row.
    """
    opened, read = Bundle.open(bundle, verify="size"), read_report(report)
    generator, name = Generator.of(opened), opened.path.name
    if not read.bundle.startswith(f"{name} "):
        raise RequestError(f"{report}: the report is about another bundle", found=read.bundle, expected=name)
    rows = [row for row in read.rows if row.seconds_per_image is not None]
    if not rows:
        raise RequestError(
            f"{report}: no row was timed", found=f"{len(read.rows)} rows", fix="run the bench with --images above 0"
        )
    return [
        Observed(f"{name}: {row_title(row)}", row_steps(generator, row), _seconds(row, read.machine.threads))
        for row in rows
    ]


def check(fitted: Sequence[Observed], others: Sequence[Observed]) -> tuple[Machine, list[Checked]]:
    """Fit the rates of a processor on some methods, and predict each of them by the rest and others by all.

    Raises:
        RequestError: there are too few methods to fit on.
    """
    if len(fitted) <= _FEWEST:
        raise RequestError(
            "too few methods to fit the rates on", found=len(fitted), expected=f"{_FEWEST + 1} or more", fix="time more"
        )
    machine = _fit(fitted)
    return machine, [
        *(_predict(_fit([other for other in fitted if other is not each]), each, fitted=True) for each in fitted),
        *(_predict(machine, each, fitted=False) for each in others),
    ]


def _fit(observed: Sequence[Observed]) -> Machine:
    return fit_processor([(each.steps, each.seconds) for each in observed])


def _predict(machine: Machine, observed: Observed, *, fitted: bool) -> Checked:
    return Checked(observed.name, fitted, observed.seconds, machine.seconds(observed.steps))


def _seconds(row: Row, threads: int) -> float:
    """With one thread the processor's time, in which other programs of the machine do not show; else the clock's."""
    clock = row.seconds_per_image or 0.0
    return row.cpu_seconds_per_image or clock if threads == 1 else clock
