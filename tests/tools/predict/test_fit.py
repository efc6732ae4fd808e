"""A processor's rates come back from the times that they make."""

from __future__ import annotations

import numpy as np
import pytest
from mulo_tools.predict.fit import fit_processor
from mulo_tools.predict.generator import Generator
from mulo_tools.predict.machine import Machine
from mulo_tools.predict.schedules import MuloCounts, jacobi_steps, mulo_steps, raster_steps
from mulo_tools.predict.work import Step

CORE = Machine(2e-6, 1.5e10, 1e10, 4e10, 6e10, 9e8, 3e-4, 4e7, copies=True, overlaps=False)


def image(generator: Generator, *steps: Step) -> list[Step]:
    return [*steps, Step("decoder", 1, generator.tokenizer_graph("decoder"))]


def mulo(generator: Generator, waves: float, guided: bool) -> list[Step]:
    counts = MuloCounts(1, (1, 1.0), (0, 0.0), 0, (0, 0), (waves, 2 * waves), (guided, True))
    return image(generator, *mulo_steps(generator, counts))


def test_times_of_one_half_of_the_methods_tell_those_of_the_other(generator: Generator) -> None:
    fitted = [image(generator, *raster_steps(generator, "target", window, True)) for window in (0, 2, 6)]
    fitted += [mulo(generator, 3, True), mulo(generator, 9, False), image(generator, *jacobi_steps(generator, 40, 8))]
    others = [image(generator, *raster_steps(generator, "target", 4, True)), mulo(generator, 5, True)]
    others += [image(generator, *jacobi_steps(generator, 50, 6))]
    noise = np.random.default_rng(0).normal(1, 0.01, len(fitted))
    timed = [(steps, CORE.seconds(steps) * factor) for steps, factor in zip(fitted, noise, strict=True)]
    machine = fit_processor(timed)
    for steps in others:
        assert machine.seconds(steps) == pytest.approx(CORE.seconds(steps), rel=0.05)
