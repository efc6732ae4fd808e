"""TA-Tok codes drawn by a language model of Tar's class that is small and random."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
from mulo_engines.errors import CheckpointError, RequestError
from mulo_tools.text.hub_models import ChatModel
from mulo_tools.text.tar_codes import code_ids, draw_codes, image_prompt, parse_codes
from safetensors.numpy import load_file, save_file
from text_models import CODES, write_flan_t5, write_tar_llm

IDS = [9, 7, 8]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tar")
    write_tar_llm(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> ChatModel:
    return ChatModel(str(folder), dtype="float32")


def copy_model(source: Path, destination: Path) -> None:
    shutil.copytree(source, destination, dirs_exist_ok=True)


@pytest.mark.parametrize(("count", "scale"), [(729, 0), (169, 1), (81, 2)])
def test_the_model_is_asked_as_it_was_trained(model: ChatModel, count: int, scale: int) -> None:
    assert image_prompt(model, "a cat", count) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\na cat<|im_end|>\n"
        f"<|im_start|>assistant\n<im_start><S{scale}>"
    )


def test_the_ids_of_codes_come_from_the_tokenizer(model: ChatModel) -> None:
    ids = code_ids(model.vocabulary)
    assert len(ids) == CODES
    assert ids[0] == model.vocabulary["<I0>"]
    assert ids[-1] == model.vocabulary[f"<I{CODES - 1}>"]


@pytest.mark.parametrize("count", [81, 169])
def test_an_image_has_as_many_codes_as_are_wanted(model: ChatModel, count: int) -> None:
    codes = draw_codes(model, "a cat", count, only_codes=True).codes
    assert (codes.shape, codes.dtype) == ((count,), np.int64)
    assert 0 <= codes.min() < codes.max() < CODES


def test_equal_seeds_draw_equal_codes(model: ChatModel) -> None:
    first, again, other = (draw_codes(model, "a cat", 81, seed=seed, only_codes=True) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.codes, again.codes)
    assert (first.codes != other.codes).any()


def test_the_prompt_changes_what_is_drawn(model: ChatModel) -> None:
    cat, dog = (draw_codes(model, prompt, 81, only_codes=True) for prompt in ("a cat", "a dog"))
    assert (cat.codes != dog.codes).any()


def test_other_tokens_are_left_out_and_code_0_fills_up(model: ChatModel, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        drawn = draw_codes(model, "a cat", 81, seed=3)
    missing = 81 - int(np.flatnonzero(drawn.codes)[-1]) - 1
    assert 0 < missing < 40
    assert f"drew {81 - missing} codes of 81" in caplog.text


def test_codes_are_parsed_in_the_order_of_the_tokens() -> None:
    assert parse_codes([7, 1, 9, 8, 8], IDS, 3).codes.tolist() == [1, 0, 2]
    assert parse_codes([8, 2], IDS, 4).codes.tolist() == [2, 0, 0, 0]
    with pytest.raises(RequestError, match="2 other tokens"):
        parse_codes([1, 2], IDS, 3)


def test_a_vision_tower_beside_the_language_model_is_left_out(folder: Path, tmp_path: Path, model: ChatModel) -> None:
    copy_model(folder, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    tower = {"model.vision_tower.vision_tower.weight": np.ones((2, 2), np.float32)}
    save_file(weights | tower, tmp_path / "model.safetensors", metadata={"format": "pt"})
    drawn = draw_codes(ChatModel(str(tmp_path), dtype="float32"), "a cat", 81, only_codes=True)
    np.testing.assert_array_equal(drawn.codes, draw_codes(model, "a cat", 81, only_codes=True).codes)


def test_a_language_model_without_codes_is_refused(tmp_path: Path) -> None:
    write_tar_llm(tmp_path, codes=0)
    with pytest.raises(CheckpointError, match="no token <I0>"):
        draw_codes(ChatModel(str(tmp_path)), "a cat", 81)


def test_a_tokenizer_that_cannot_begin_an_image_is_refused(folder: Path, tmp_path: Path) -> None:
    copy_model(folder, tmp_path)
    place = tmp_path / "tokenizer.json"
    place.write_text(place.read_text().replace('"<S2>"', '"<T2>"'))
    with pytest.raises(CheckpointError, match="no token <S2>"):
        image_prompt(ChatModel(str(tmp_path)), "a cat", 81)


def test_a_model_that_does_not_chat_is_refused(tmp_path: Path) -> None:
    write_tar_llm(tmp_path, chat=None)
    with pytest.raises(CheckpointError, match="no chat template"):
        ChatModel(str(tmp_path))


def test_an_encoder_is_no_language_model(tmp_path: Path) -> None:
    write_flan_t5(tmp_path)
    with pytest.raises(CheckpointError, match=r"found: +t5\n +expected: qwen2"):
        ChatModel(str(tmp_path))


def test_a_model_that_lacks_weights_is_refused_instead_of_filled_up(folder: Path, tmp_path: Path) -> None:
    copy_model(folder, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"1 tensors are missing, such as model\.layers\.1\.mlp\.up_proj\.weight"):
        ChatModel(str(tmp_path))


def test_a_model_without_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    copy_model(folder, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no text model can be loaded"):
        ChatModel(str(tmp_path))
