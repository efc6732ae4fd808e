"""The commands beside `mulo bench`, on a real bundle."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.errors import MuloError
from mulo_runtime import AutoRegressive, Pipeline
from mulo_tools.bench.bare_steps import BareSteps
from mulo_tools.bench.cases import cases_of
from mulo_tools.bench.interleave import interleaved
from mulo_tools.bench.soak import refuse_growth

RunMulo = Callable[..., Result]


def numbers(result: Result) -> list[float]:
    assert result.exit_code == 0, result.output
    return [float(number) for number in re.findall(r"[+-]?\d+\.\d+", result.stdout)]


def test_a_step_is_compared_with_its_engines(mulo: RunMulo, scene_bundle: Path) -> None:
    plain, bare, ratio = numbers(mulo("bench-step", scene_bundle, "--images", 1, "--threads", 1))
    assert min(plain, bare, ratio) > 0


def test_bare_steps_are_those_of_plain_decoding_without_its_prefill(scene_bundle: Path) -> None:
    bare = BareSteps(Bundle.open(scene_bundle), open_backend("onnxruntime", threads=1))
    with Pipeline.open(scene_bundle, threads=1) as pipeline:
        result = pipeline.generate(cases_of("tune", 1)[0].request(AutoRegressive()))
    assert bare.count == result.statistics.engines["target"].passes - 1
    assert bare.run() > 0
    bare.close()
    with pytest.raises(MuloError, match="closed"):
        bare.run()


def test_plain_decoding_is_compared_with_pytorch(mulo: RunMulo, scene_bundle: Path) -> None:
    pytest.importorskip("torch")
    engines, eager, ratio = numbers(mulo("bench-torch", scene_bundle, "--images", 1))
    assert ratio == pytest.approx(eager / engines, rel=0.02)


def test_contenders_take_turns_and_their_first_turn_does_not_count() -> None:
    turns = iter(range(6))
    assert interleaved(2, lambda: next(turns), lambda: next(turns)) == [(2, 3), (4, 5)]


def test_growth_and_large_steps_are_refused() -> None:
    refuse_growth(0.009, 60_000)
    with pytest.raises(MuloError, match="grows"):
        refuse_growth(0.011, 0)
    with pytest.raises(MuloError, match="allocates"):
        refuse_growth(0, 65_536)
