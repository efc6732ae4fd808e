"""What enters linear layers is noted while images are drawn, and makes a bundle that computes in 8 bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import tiny_bundle
from click.testing import CliRunner, Result
from conftest import MakeBundle
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.cache_tensors import cache_names
from mulo_engines.errors import MuloError
from mulo_export import cli
from mulo_export.calibration import read_calibration
from mulo_export.precision import Precision
from mulo_tools.observed_engine import ObservedEngine

RunMulo = Callable[..., Result]

QKV = "layers.0.attention.wqkv.weight"


def _step(bundle: Bundle) -> dict[str, Any]:
    """A step of four tokens on an empty cache."""
    target = bundle.manifest.target
    cache = np.zeros((1, target.heads, 8, target.head_dim), np.float32)
    return {
        "cond_embeds": np.zeros((1, 0, target.dim), np.float32),
        "token_ids": np.arange(4)[None],
        "position_ids": np.arange(4)[None] + bundle.manifest.condition.length,
        "write_index": np.zeros(1, np.int64),
        "attn_mask": np.tril(np.ones((4, 8), np.bool_))[None, None],
        "logit_rows": np.arange(4)[None],
        **{name: cache.copy() for name in cache_names(target.layers)},
    }


def test_an_observed_engine_computes_what_the_engine_does(shared_bundle: MakeBundle) -> None:
    bundle = Bundle.open(shared_bundle())
    step = _step(bundle)
    with ObservedEngine.load(bundle, "target", threads=1) as observed:
        found = observed.run_once(step)
        ranges = observed.ranges
    with open_backend("onnxruntime", threads=1).load(bundle, "target") as plain:
        expected = plain.run_once(step)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    # The first layer reads embeddings of a root mean square of one, times the weights of its norm.
    assert ranges[QKV].rms == pytest.approx(1, rel=0.3)
    assert ranges[QKV].amax > ranges[QKV].rms


def test_the_largest_input_of_all_passes_and_the_mean_of_their_squares_are_kept(shared_bundle: MakeBundle) -> None:
    bundle = Bundle.open(shared_bundle())
    first, second = _step(bundle), _step(bundle)
    second["token_ids"] += 4
    alone = []
    for steps in ([first], [second], [first, second]):
        with ObservedEngine.load(bundle, "target", threads=1) as observed:
            for step in steps:
                observed.run_once(step)
            alone.append(observed.ranges[QKV])
    one, other, both = alone
    assert both.amax == max(one.amax, other.amax)
    assert both.rms == pytest.approx(np.sqrt((one.rms**2 + other.rms**2) / 2))


def test_a_calibrated_bundle_computes_in_codes_and_passes_its_parity(mulo: RunMulo, tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path, text=False)
    result = mulo("calibrate", bundle, "--out", tmp_path / "calibration.json", "--images", 4, "--threads", 1)
    assert result.exit_code == 0, result.output
    calibration = read_calibration(tmp_path / "calibration.json")
    assert calibration.images == 4
    for role in ("drafter", "target"):
        inputs = calibration.role(role).inputs
        assert len(inputs) == 5 * 2
        assert all(0 < found.rms <= found.amax for found in inputs.values())
        assert inputs["layers.1.feed_forward.w1.weight"] == inputs["layers.1.feed_forward.w3.weight"]
    exported = _export(tmp_path, "--precision", "fp8", "--calibration", str(tmp_path / "calibration.json"))
    assert exported.exit_code == 0, exported.output
    opened = Bundle.open(tmp_path / "calibrated")
    assert b"QuantizeLinear" in opened.graph("target").read_bytes()
    assert [record.file_name for record in opened.manifest.provenance if record.role == "calibration"]


def _export(folder: Path, *options: str) -> Result:
    paths = {role: str(folder / f"{role}.safetensors") for role in ("target", "drafter", "vq")}
    arguments = [argument for role, path in paths.items() for argument in (f"--{role}", path)]
    out = str(folder / "calibrated")
    return CliRunner().invoke(cli.main, ["llamagen", *arguments, "--out", out, *options])


def _of_another_checkpoint(content: dict[str, Any]) -> None:
    content["target"]["checkpoint"] = "0" * 64


def _negative(content: dict[str, Any]) -> None:
    content["target"]["inputs"][QKV]["amax"] = -1.0


def _without_images(content: dict[str, Any]) -> None:
    del content["images"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_of_another_checkpoint, "of another target"),
        (_negative, f"target.inputs.{QKV}.amax"),
        (_without_images, "images"),
    ],
)
def test_a_calibration_that_does_not_fit_is_refused(
    spoil: Callable[[dict[str, Any]], None], words: str, mulo: RunMulo, tmp_path: Path
) -> None:
    path = tmp_path / "calibration.json"
    mulo("calibrate", tiny_bundle(tmp_path, text=False), "--out", path, "--images", 1, "--threads", 1)
    content = json.loads(path.read_text())
    spoil(content)
    path.write_text(json.dumps(content))
    result = _export(tmp_path, "--precision", "fp8", "--calibration", str(path))
    assert result.exit_code == 3
    assert words in result.stderr
    assert not (tmp_path / "calibrated").exists()


@pytest.mark.parametrize("precision", ["fp32", "int8", "int4-tensorrt"])
def test_a_calibration_for_what_does_not_compute_in_codes_is_wrong_usage(precision: str, tmp_path: Path) -> None:
    tiny_bundle(tmp_path, text=False)
    result = _export(tmp_path, "--precision", precision, "--calibration", "calibration.json")
    assert result.exit_code == 2
    assert "not computed in codes" in result.stderr


def test_a_quantized_bundle_cannot_be_calibrated(mulo: RunMulo, tmp_path: Path) -> None:
    bundle = tiny_bundle(tmp_path, text=False, precision=Precision.INT8)
    result = mulo("calibrate", bundle, "--out", tmp_path / "calibration.json")
    assert result.exit_code == MuloError.exit_code + 1
    assert "--precision fp32" in result.stderr


@pytest.mark.parametrize(
    ("shown", "code"),
    [(["--prompt", "a red circle"], 0), (["--prompt", "a pink elephant"], 2), (["--condition", "missing.npz"], 2)],
)
def test_images_show_what_is_given(shown: list[str], code: int, mulo: RunMulo, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    result = mulo("calibrate", tiny_bundle(tmp_path), "--out", path, "--images", 1, "--threads", 1, *shown)
    assert result.exit_code == code, result.output
    assert path.exists() == (code == 0)
