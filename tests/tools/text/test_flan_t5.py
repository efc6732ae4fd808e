"""Text features of LlamaGen, by an encoder of flan-t5's class that is small and random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from mulo_engines.errors import CheckpointError, EngineUnavailable
from mulo_tools.text.flan_t5 import encode_features, left_padded
from mulo_tools.text.hub_models import TextEncoder
from text_models import FEATURE_SIZE, write_flan_t5, write_tar_llm
from transformers import AutoTokenizer, T5EncoderModel

LENGTH = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("flan-t5")
    write_flan_t5(folder)
    return str(folder)


def states(folder: str, text: str) -> np.ndarray:
    """Last hidden states of `text` alone and unpadded, its end token included."""
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.inference_mode():
        return T5EncoderModel.from_pretrained(folder)(**tokens).last_hidden_state[0].numpy()


def test_the_features_of_the_cleaned_prompt_fill_the_last_positions(folder: str) -> None:
    prompts = ["A RED  circle!!", "<b>a</b> circle on dark", ""]
    conditions = encode_features(TextEncoder(folder, dtype="float32"), prompts, LENGTH)
    for condition, text in zip(conditions, ["a red circle!!", "a circle on dark", ""], strict=True):
        expected = states(folder, text)
        assert condition.features.shape == (LENGTH, FEATURE_SIZE)
        assert condition.mask.tolist() == [False] * (LENGTH - len(expected)) + [True] * len(expected)
        np.testing.assert_allclose(condition.features[condition.mask], expected, atol=1e-5)
        assert not condition.features[~condition.mask].any()


def test_a_long_prompt_is_cut_and_keeps_its_end_token(folder: str) -> None:
    (condition,) = encode_features(TextEncoder(folder, dtype="float32"), ["red " * 50], LENGTH)
    assert condition.mask.all()
    np.testing.assert_allclose(condition.features, states(folder, "red " * (LENGTH - 1)), atol=1e-5)


def test_bfloat16_computes_the_same_but_for_rounding(folder: str) -> None:
    (rounded,) = encode_features(TextEncoder(folder), ["a red circle"], LENGTH)
    (exact,) = encode_features(TextEncoder(folder, dtype="float32"), ["a red circle"], LENGTH)
    assert rounded.features.dtype == np.float32
    np.testing.assert_allclose(rounded.features, exact.features, atol=0.1)
    assert (rounded.features != exact.features).any()


def test_padding_moves_from_the_right_to_the_left() -> None:
    features = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    padded = left_padded(features, np.array([True, True, True, False]))
    assert padded.features.tolist() == [[0, 0], [1, 2], [3, 4], [5, 6]]
    assert padded.mask.tolist() == [False, True, True, True]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no text model can be loaded"):
        TextEncoder(str(tmp_path))


def test_another_model_is_refused(tmp_path: Path) -> None:
    write_tar_llm(tmp_path)
    with pytest.raises(CheckpointError, match=r"found: +qwen2\n +expected: t5"):
        TextEncoder(str(tmp_path))


def test_a_device_that_is_not_there_is_named(folder: str) -> None:
    with pytest.raises(EngineUnavailable, match="cannot run on 'nothing'"):
        TextEncoder(folder, device="nothing")
