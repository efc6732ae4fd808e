"""Training resumes bit for bit, warm starts compute what their parent did, and both tasks are learnt."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mulo_tools.reference.gpt import GPTConfig
from mulo_tools.reference.scenes import scenes_of
from mulo_tools.reference.train_gpt import GPTRecipe, GPTTraining, Portion, TokenData, every
from mulo_tools.reference.train_vq import VQRecipe, VQTraining, spherical_k_means
from mulo_tools.reference.training import Budget, Replicas
from mulo_tools.reference.vocabulary import scene_prompt_encoder
from torch import Tensor

WIDTH = scene_prompt_encoder().width
CONFIG = GPTConfig(grid=2, layers=1, text_width=WIDTH, width=16, heads=2, hidden=24, vocabulary=20)
RECIPE = GPTRecipe(warm_up=2, memory=4)
VQ_RECIPE = VQRecipe(batch=4, continuous_steps=3, pool_steps=3, restart_every=2, warm_up=2)


@pytest.fixture
def data() -> TokenData:
    features, mask = scene_prompt_encoder().encode([scene.caption for scene in scenes_of(range(10))])
    tokens = np.random.default_rng(0).integers(20, size=(10, 4)).astype(np.uint16)
    return TokenData(torch.from_numpy(features), torch.from_numpy(mask), tokens)


@pytest.fixture
def pictures() -> dict[int, np.ndarray]:
    rng = np.random.default_rng(0)
    return {px: rng.integers(256, size=(4, px, px, 3)).astype(np.uint8) for px in (32, 64, 128)}


def _equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_gpt_run_that_was_interrupted_ends_with_the_same_weights(data: TokenData, tmp_path: Path) -> None:
    through = GPTTraining(CONFIG, RECIPE, Replicas())
    through.run([Portion(data, 4)], Budget(steps=6), tmp_path / "through", "test")
    first = GPTTraining(CONFIG, RECIPE, Replicas())
    for step in range(3):
        first.train_step([Portion(data, 4)], step / 6)
    first.save(tmp_path / "halves", 0.0)
    second = GPTTraining(CONFIG, RECIPE, Replicas())
    second.run([Portion(data, 4)], Budget(steps=6), tmp_path / "halves", "test")
    assert second.step == 6
    assert _equal(second.model.state_dict(), through.model.state_dict())
    assert _equal(second.average.values, through.average.values)


def test_a_tokenizer_run_that_was_interrupted_ends_with_the_same_weights(
    pictures: dict[int, np.ndarray], tmp_path: Path
) -> None:
    results = []
    for name, stops in (("through", [8]), ("halves", [2, 5, 8])):
        for stop in stops:
            training = VQTraining(VQ_RECIPE, Replicas())
            if (tmp_path / name).exists():
                training.restore(tmp_path / name)
            while training.step < stop:
                training.train_step(pictures, training.step / 8)
            training.save(tmp_path / name, 0.0)
        results.append(training)
    through, halves = results
    assert _equal(halves.tokenizer.state_dict(), through.tokenizer.state_dict())
    assert _equal(halves.average.values, through.average.values)


def test_the_loss_of_a_tiny_data_set_falls(data: TokenData) -> None:
    training = GPTTraining(CONFIG, RECIPE, Replicas())
    losses = [training.train_step([Portion(data, 4)], 0.0) for _ in range(30)]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_a_head_start_leaves_out_the_pictures_at_the_models_own_resolution(data: TokenData) -> None:
    fine, coarse = Portion(data, 2), Portion(TokenData(data.features, data.text_mask, data.tokens[:, :1]), 2)
    weights = []
    for portions, progress in (([fine, coarse], 0.4), ([coarse], 0.4), ([fine, coarse], 0.6)):
        training = GPTTraining(CONFIG, GPTRecipe(head_start=0.5, decay_from=0.9), Replicas())
        training.train_step(portions, progress)
        weights.append(training.model.state_dict())
    assert _equal(weights[0], weights[1])
    assert not _equal(weights[1], weights[2])


def test_thinned_grids_keep_every_other_row_and_column() -> None:
    grids = np.arange(32, dtype=np.uint16).reshape(2, 16)
    thin = every(2, TokenData(torch.zeros(2, 1, 1), torch.ones(2, 1, dtype=torch.bool), grids))
    assert thin.tokens.tolist() == [[0, 2, 8, 10], [16, 18, 24, 26]]
    assert thin.side == 2


def test_every_epoch_shows_every_example_once(data: TokenData) -> None:
    training = GPTTraining(CONFIG, RECIPE, Replicas())
    seen = []
    for training.step in range(5):
        seen += training.batch_rows(len(data), 4).tolist()
    assert sorted(seen[:10]) == sorted(seen[10:20]) == list(range(10))


def test_the_null_condition_ignores_the_caption_but_keeps_its_length(data: TokenData) -> None:
    training = GPTTraining(CONFIG, RECIPE, Replicas())
    lengths = data.text_mask.sum(1)
    rows = (lengths == lengths.mode().values).nonzero().flatten()[:2]
    same = TokenData(data.features, data.text_mask, np.zeros_like(data.tokens))
    losses = [float(training.loss(same, row[None], torch.tensor([True])).detach()) for row in rows]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_progress_follows_whichever_budget_is_nearer_its_end() -> None:
    assert Budget(steps=10).progress(5, 1e9) == 0.5
    assert Budget(minutes=1).progress(10**6, 30) == 0.5
    assert Budget(steps=10, minutes=1).progress(9, 30) == 0.9


def test_k_means_finds_separated_directions() -> None:
    centres = torch.eye(4)
    noise = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)) * 0.05
    vectors = torch.nn.functional.normalize(centres.repeat(50, 1) + noise, dim=-1)
    found = spherical_k_means(vectors, 4, np.random.default_rng(1))
    assert sorted((found @ centres.T).argmax(1).tolist()) == [0, 1, 2, 3]
