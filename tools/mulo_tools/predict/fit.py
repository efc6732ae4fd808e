"""The rates of a processor, from images that it was timed on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from mulo_tools.predict.machine import Machine
from mulo_tools.predict.work import Step

__all__ = ["fit_processor"]

_START = (3e-6, 2e10, 1e10, 3e10, 3e10, 5e8, 1e-4, 5e7)
"""The first eight rates of a core, roughly; the fit moves every one by whatever factor the times ask for."""
_PULL = 0.02
"""Weight of a rate's distance from the start, in factors of e: settles what the times leave open."""


def fit_processor(timed: Sequence[tuple[Sequence[Step], float]]) -> Machine:
    """Find the rates whose predictions are nearest to the measured seconds, in relative terms.

    Args:
        timed: the steps of an image and the seconds that it took, of several methods.
    """
    start = np.log(_START)

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        machine = _processor(logs)
        errors = [np.log(machine.seconds(steps) / seconds) for steps, seconds in timed]
        return np.concatenate([errors, _PULL * (logs - start)])

    return _processor(least_squares(residuals, start).x)


def _processor(logs: NDArray[np.float64]) -> Machine:
    launch, moved, cached, products, convolutions, elements, several, decided = np.exp(logs).tolist()
    return Machine(
        launch, moved, cached, products, convolutions, elements, several, decided, copies=True, overlaps=False
    )
