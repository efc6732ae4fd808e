"""The published architecture's own outputs are reproduced, by the graphs and by the numpy reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from golden_models import TOLERANCE, GoldenModel, open_golden
from mulo_engines.engine import Engine
from mulo_export.reference.sequence import empty_caches, guided
from mulo_export.reference.transformer import ReferenceTransformer
from numpy.typing import NDArray

SMALL = ["llamagen_c2i", "llamagen_t2i", "tar_ar_dtok"]


@pytest.fixture(scope="module")
def gpt_b(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenModel]:
    """The 111 M parameters of GPT-B, whose 443 MB are not left behind."""
    model = open_golden("llamagen_gpt_b", tmp_path_factory.mktemp("gpt_b"))
    yield model
    model.file.path.unlink()


@pytest.mark.parametrize("name", SMALL)
def test_the_graphs_reproduce_the_golden_logits(name: str, tmp_path: Path) -> None:
    model = open_golden(name, tmp_path)
    with model.transformer() as engine:
        logits = engine.run_once(model.step(model.embeddings(), model.stored["tokens"]))["logits"]
    assert model.error(logits) < TOLERANCE


@pytest.mark.parametrize("name", SMALL)
def test_the_graphs_reproduce_the_golden_greedy_tokens_one_by_one(name: str, tmp_path: Path) -> None:
    model = open_golden(name, tmp_path)
    with model.transformer() as engine:
        assert np.array_equal(_decode_greedily(model, engine), model.stored["greedy"][0])


@pytest.mark.parametrize("name", SMALL)
def test_the_reference_reproduces_the_golden_logits(name: str, tmp_path: Path) -> None:
    model = open_golden(name, tmp_path)
    reference = ReferenceTransformer(model.config, model.file)
    embeddings = reference.condition(model.stored["cond"])
    logits = reference.run(model.step(embeddings, model.stored["tokens"]))["logits"]
    assert model.error(logits) < TOLERANCE


def test_gpt_b_reproduces_the_golden_logits_and_the_most_likely_token_of_every_position(gpt_b: GoldenModel) -> None:
    with gpt_b.transformer() as engine:
        logits = engine.run_once(gpt_b.step(gpt_b.embeddings(), gpt_b.stored["tokens"]))["logits"]
    assert gpt_b.error(logits) < TOLERANCE
    assert np.array_equal(logits.argmax(-1), gpt_b.stored["argmax"])
    logsumexp = np.log(np.exp(logits.astype(np.float64)).sum(-1))
    assert np.abs(logsumexp - gpt_b.stored["logsumexp"]).max() < TOLERANCE


def test_gpt_b_prefers_every_golden_greedy_token_after_the_ones_before(gpt_b: GoldenModel) -> None:
    greedy = gpt_b.stored["greedy"].astype(np.int64)
    with gpt_b.transformer() as engine:
        logits = engine.run_once(gpt_b.step(gpt_b.embeddings(), greedy))["logits"]
    assert np.array_equal(guided(logits, gpt_b.guidance_scale).argmax(-1), greedy)


def _decode_greedily(model: GoldenModel, engine: Engine) -> NDArray[np.int64]:
    """Prefill, then one token a step, as every decoder does; the caches are bound once, in place."""
    config = model.config
    caches = empty_caches(config, 2, config.positions)
    outputs = {name.replace("cache", "cache_out"): cache for name, cache in caches.items()}
    outputs["logits"] = np.zeros((2, 1, config.vocabulary), np.float32)
    embeddings, tokens = model.embeddings(), np.zeros((2, 0), np.int64)
    decoded: list[int] = []
    first = 0
    while len(decoded) < config.grid**2:
        count = embeddings.shape[1] + tokens.shape[1]
        positions = np.tile(np.arange(first, first + count), (2, 1))
        inputs = {
            "cond_embeds": embeddings,
            "token_ids": tokens,
            "position_ids": positions,
            "write_index": positions[:, 0].copy(),
            "attn_mask": np.ascontiguousarray(model.mask[:, :, first : first + count]),
            "logit_rows": np.full((2, 1), count - 1),
        }
        engine.bind({**inputs, **caches, **outputs}).run()
        decoded.append(int(guided(outputs["logits"], model.guidance_scale).argmax()))
        embeddings, tokens, first = embeddings[:, :0].copy(), np.full((2, 1), decoded[-1]), first + count
    return np.array(decoded)
