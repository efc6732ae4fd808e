"""The GPT has LlamaGen's layout and arithmetic, and its cache changes nothing."""

import math

import pytest
import torch
from mulo_tools.reference.gpt import GPT, GPTConfig, rotate
from mulo_tools.reference.sample import CachedDecoder
from mulo_tools.reference.scenes import scenes_of
from mulo_tools.reference.vocabulary import scene_prompt_encoder
from torch import Tensor

WIDTH = scene_prompt_encoder().width
CONFIG = GPTConfig(grid=4, layers=2, text_width=WIDTH, width=32, heads=2, hidden=48, vocabulary=50)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    model = GPT(CONFIG)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.2)
    return model.requires_grad_(False)


@pytest.fixture
def prompts() -> tuple[Tensor, Tensor]:
    features, mask = scene_prompt_encoder().encode([scene.caption for scene in scenes_of(range(6))])
    assert len(set(mask.sum(1))) > 1, "the prompts must need padding"
    return torch.from_numpy(features), torch.from_numpy(mask)


def test_parameters_have_the_published_names_and_shapes(model: GPT) -> None:
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    layer = {
        "attention.wqkv.weight": (96, 32),
        "attention.wo.weight": (32, 32),
        "feed_forward.w1.weight": (48, 32),
        "feed_forward.w3.weight": (48, 32),
        "feed_forward.w2.weight": (32, 48),
        "attention_norm.weight": (32,),
        "ffn_norm.weight": (32,),
    }
    assert shapes == {
        "tok_embeddings.weight": (50, 32),
        "cls_embedding.cap_proj.fc1.weight": (32, WIDTH),
        "cls_embedding.cap_proj.fc2.weight": (32, 32),
        "cls_embedding.uncond_embedding": (12, WIDTH),
        "norm.weight": (32,),
        "output.weight": (50, 32),
    } | {f"layers.{index}.{name}": shape for index in range(2) for name, shape in layer.items()}


def test_prefix_queries_and_keys_are_zero_and_the_first_image_token_is_not_rotated(model: GPT) -> None:
    x = torch.randn(1, 28, 32)
    attention = model.layers[0].attention
    queries, keys, values = attention.project(x, model.rotation)
    assert not queries[:, :, :12].any()
    assert not keys[:, :, :12].any()
    plain = attention.wqkv(x).view(1, 28, 3, 2, 16).permute(2, 0, 3, 1, 4)
    assert torch.allclose(queries[:, :, 12], plain[0][:, :, 12])
    assert torch.allclose(values, plain[2])


def test_rotation_turns_adjacent_pairs_by_row_then_column(model: GPT) -> None:
    row, column = 2, 3
    x = torch.randn(1, 1, 2, 2, 16)
    turned = rotate(x, model.rotation[12 + row * 4 + column][None])[0, 0, 0, 0]
    angles = [place * 10000 ** (-2 * j / 8) for place in (row, column) for j in range(4)]
    for pair, angle in enumerate(angles):
        first, second = x[0, 0, 0, 0, 2 * pair : 2 * pair + 2].tolist()
        expected = (
            first * math.cos(angle) - second * math.sin(angle),
            second * math.cos(angle) + first * math.sin(angle),
        )
        assert turned[2 * pair : 2 * pair + 2].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_coarse_grid_stands_on_every_second_row_and_column(model: GPT) -> None:
    spread = model.spread_rotation(2)
    assert torch.equal(spread[:12], model.rotation[:12])
    assert torch.equal(spread[12:], model.rotation[12:][torch.tensor([0, 2, 8, 10])])
    assert model.spread_rotation(4) is model.rotation


def test_dropping_padding_changes_no_logits(model: GPT, prompts: tuple[Tensor, Tensor]) -> None:
    features, mask = prompts
    tokens = torch.randint(50, (6, 15))
    together = model(features, mask, tokens)
    for row in range(6):
        alone = model(features[row : row + 1], mask[row : row + 1], tokens[row : row + 1])
        assert torch.allclose(alone[0], together[row], atol=1e-4)


def test_decoding_with_a_cache_gives_the_logits_of_one_pass(model: GPT, prompts: tuple[Tensor, Tensor]) -> None:
    features, mask = prompts
    tokens = torch.randint(50, (6, 16))
    decoder = CachedDecoder(model, features, mask)
    steps = [decoder.prefill()] + [decoder.feed(tokens[:, i]) for i in range(15)]
    assert torch.allclose(torch.stack(steps, 1), model(features, mask, tokens[:, :-1]), atol=1e-4)


def test_later_tokens_do_not_change_earlier_logits(model: GPT, prompts: tuple[Tensor, Tensor]) -> None:
    features, mask = prompts
    tokens = torch.randint(50, (6, 15))
    changed = tokens.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 50
    before, after = model(features, mask, tokens), model(features, mask, changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert not torch.equal(before[:, 9:], after[:, 9:])
