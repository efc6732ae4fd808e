"""The shipped weights load, say what they are, and belong together."""

from pathlib import Path

import pytest
import torch
from mulo_runtime.prompt import WordPromptEncoder
from mulo_tools.reference import weights_file
from mulo_tools.reference.evaluate import score_reconstructions
from mulo_tools.reference.gpt import GPT, GPTConfig
from mulo_tools.reference.scenes import TUNING_SEEDS, scenes_of
from mulo_tools.reference.vocabulary import PREFIX_LENGTH, scene_prompt_encoder
from mulo_tools.reference.vq import VQConfig, VQTokenizer
from safetensors import safe_open

WEIGHTS = Path(weights_file.__file__).parent / "weights"
GPTS = {"drafter-32px": (8, 4), "target-64px": (16, 2), "target-128px": (32, 2)}


def _metadata(name: str) -> dict[str, str]:
    with safe_open(WEIGHTS / f"{name}.safetensors", "pt") as file:
        metadata: dict[str, str] = file.metadata()
        return metadata


@pytest.mark.parametrize("name", GPTS)
def test_a_gpt_says_what_its_tensors_hide(name: str) -> None:
    grid, heads = GPTS[name]
    assert _metadata(name) == {
        "family": "llamagen-t2i",
        "n_head": str(heads),
        "grid": str(grid),
        "norm_eps": "1e-05",
        "rope_base": "10000",
    }
    config = weights_file.load_gpt(WEIGHTS / f"{name}.safetensors").config
    assert config == GPTConfig(grid=grid, layers=6, heads=heads, text_width=scene_prompt_encoder().width)


def test_the_tokenizer_says_what_its_tensors_hide() -> None:
    assert _metadata("vq") == {"family": "vq", "groups": "8", "norm_eps": "1e-06"}


def test_the_shipped_words_are_those_of_the_scene_language() -> None:
    shipped = WordPromptEncoder.load(WEIGHTS / "prompt.safetensors")
    caption = scenes_of([0])[0].caption
    assert shipped.length == PREFIX_LENGTH
    assert shipped.words == scene_prompt_encoder().words
    assert (shipped.encode([caption])[0] == scene_prompt_encoder().encode([caption])[0]).all()


@pytest.mark.parametrize(("px", "least"), [(32, 0.7), (64, 0.95), (128, 0.9)])
def test_pictures_survive_the_shipped_tokenizer(px: int, least: float) -> None:
    tokenizer = weights_file.load_tokenizer(WEIGHTS / "vq.safetensors")
    assert score_reconstructions(tokenizer, TUNING_SEEDS[:40], px).correct >= least


def test_weights_are_the_same_after_saving_and_loading(tmp_path: Path) -> None:
    torch.manual_seed(0)
    gpt, tokenizer = GPT(GPTConfig(grid=4, layers=2, text_width=9)), VQTokenizer()
    weights_file.save_gpt(tmp_path / "gpt", gpt.state_dict(), gpt.config)
    weights_file.save_tokenizer(tmp_path / "vq", tokenizer.state_dict(), VQConfig())
    loaded = weights_file.load_gpt(tmp_path / "gpt")
    assert loaded.config == gpt.config
    for before, after in (
        (gpt, loaded),
        (tokenizer, weights_file.load_tokenizer(tmp_path / "vq")),
    ):
        assert before.state_dict().keys() == after.state_dict().keys()
        assert all(torch.equal(value, after.state_dict()[name]) for name, value in before.state_dict().items())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpt", "vq"]
