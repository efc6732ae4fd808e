"""`mulo verify` from the command line: what it prints, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import tiny_bundle
from click.testing import Result
from conftest import MakeBundle
from mulo_engines.backend import Backend
from mulo_export.precision import Precision
from mulo_tools.verify import command
from numpy.typing import NDArray
from verify_sides import ChangedBackend, draw_after

RunMulo = Callable[..., Result]
PROMPT = ("--prompt", "a red circle", "--threads", 1)


def test_one_backend_agrees_with_itself_on_other_threads(mulo: RunMulo, shared_bundle: MakeBundle) -> None:
    options = ("--prompt", "a red circle", "--threads", "1,2", "--images", 1)
    result = mulo("verify", shared_bundle(), "--backends", "onnxruntime", *options)
    assert result.exit_code == 0, result.output
    for text in ("worst tensor", "cond_embeds", "relative error", "drawn by", "first difference", "not judged"):
        assert text in result.stdout


def test_two_precisions_are_compared_by_the_tolerance_of_the_narrower(
    mulo: RunMulo, shared_bundle: MakeBundle, tmp_path: Path
) -> None:
    narrow = tiny_bundle(tmp_path, precision=Precision.FP16)
    options = ("--against", narrow, "--images", 0, "--json", *PROMPT)
    result = mulo("verify", shared_bundle(), "--backends", "onnxruntime,onnxruntime", *options)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [("fp32" in side, "fp16" in side) for side in report["sides"]] == [(True, False), (False, True)]
    (target,) = (row for row in report["graphs"] if row["graph"] == "target")
    assert 0 < target["value"] <= target["tolerance"] == 1e-2
    assert report["tokens"] == []


def test_a_backend_that_deviates_ends_with_exit_code_4_and_the_place(
    mulo: RunMulo, shared_bundle: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = iter([{}, {"target": (None, draw_after(6 + 40, 9))}])

    def opened(name: str, *, threads: int) -> Backend:
        assert (name, threads) == ("onnxruntime", 1)
        return ChangedBackend(next(changed))

    monkeypatch.setattr(command, "open_backend", opened)
    result = mulo("verify", shared_bundle(), "--backends", "onnxruntime", "--images", 1, *PROMPT)
    assert result.exit_code == 4
    assert "token 41 (row 5, column 1)" in result.stdout
    assert "target, seed 0: token 41" in result.stderr


def test_what_is_not_finite_is_null_in_json(
    mulo: RunMulo, shared_bundle: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(buffers: Mapping[str, NDArray[Any]]) -> None:
        buffers["cond_embeds"][:] = np.nan

    changed = iter([{}, {"target.condition": (None, spoil)}])
    monkeypatch.setattr(command, "open_backend", lambda name, *, threads: ChangedBackend(next(changed)))
    result = mulo("verify", shared_bundle(), "--backends", "onnxruntime", "--images", 0, "--json", *PROMPT)
    assert result.exit_code == 4
    row = json.loads(result.stdout, parse_constant=pytest.fail)["graphs"][0]
    assert (row["graph"], row["value"], row["elements"][1], row["within"]) == ("target.condition", None, None, False)


def test_bundles_of_different_models_are_refused_before_anything_is_loaded(
    mulo: RunMulo, shared_bundle: MakeBundle
) -> None:
    result = mulo("verify", shared_bundle(), "--backends", "onnxruntime", "--against", shared_bundle(ratio=4))
    assert result.exit_code == 2
    assert "ratio 4; target.rows 16; target.cols 16" in result.stderr


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--backends", "onnxruntime,abacus"), 1, "abacus"),
        (("--backends", "a,b,c"), 2, "a,b,c"),
        (("--backends", "onnxruntime,"), 2, "--backends"),
        (("--backends", "onnxruntime", "--threads", "many"), 2, "many"),
        (("--backends", "onnxruntime", "--class-id", 3), 2, "conditioned otherwise"),
    ],
)
def test_wrong_usage_is_told(
    mulo: RunMulo, shared_bundle: MakeBundle, options: tuple[object, ...], code: int, told: str
) -> None:
    result = mulo("verify", shared_bundle(), *options)
    assert result.exit_code == code
    assert told in result.stderr
