"""`mulo encode-text`: files that `mulo generate --condition` takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from mulo_runtime import TaTokCodes, TextFeatures
from mulo_tools.condition_options import read_condition
from mulo_tools.text.flan_t5 import encode_features
from mulo_tools.text.hub_models import ChatModel, TextEncoder
from mulo_tools.text.tar_codes import draw_codes
from text_models import write_flan_t5, write_tar_llm

RunMulo = Callable[..., Result]

PROMPT = "a red circle"


def test_features_are_written_as_the_encoder_makes_them(mulo: RunMulo, tmp_path: Path) -> None:
    write_flan_t5(tmp_path / "t5")
    out = tmp_path / "features.npz"
    result = mulo(
        "encode-text", "llamagen", "--model", tmp_path / "t5", "--prompt", PROMPT, "--length", 12, "--out", out
    )
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{out}\n"
    read, (expected,) = read_condition(out), encode_features(TextEncoder(str(tmp_path / "t5")), [PROMPT], 12)
    assert isinstance(read, TextFeatures)
    np.testing.assert_array_equal(read.features, expected.features)
    np.testing.assert_array_equal(read.mask, expected.mask)


def test_codes_are_written_as_the_language_model_draws_them(mulo: RunMulo, tmp_path: Path) -> None:
    write_tar_llm(tmp_path / "tar")
    out = tmp_path / "codes.npz"
    given = ("--codes", 81, "--seed", 5, "--only-codes", "--out", out)
    result = mulo("encode-text", "tar", "--model", tmp_path / "tar", "--prompt", PROMPT, *given)
    assert result.exit_code == 0, result.output
    read = read_condition(out)
    assert isinstance(read, TaTokCodes)
    expected = draw_codes(ChatModel(str(tmp_path / "tar")), PROMPT, 81, seed=5, only_codes=True)
    np.testing.assert_array_equal(read.codes, expected.codes)


@pytest.mark.parametrize("family", ["llamagen", "tar"])
def test_a_folder_that_holds_no_model_is_refused_and_nothing_is_written(
    mulo: RunMulo, tmp_path: Path, family: str
) -> None:
    out = tmp_path / "out" / "c.npz"
    result = mulo("encode-text", family, "--model", tmp_path, "--prompt", PROMPT, "--out", out)
    assert result.exit_code == 3
    assert f"{tmp_path}: no text model can be loaded from here" in result.stderr
    assert not out.parent.exists()
