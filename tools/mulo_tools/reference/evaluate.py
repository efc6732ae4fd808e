"""Scores of trained weights: what share of sampled pictures shows exactly what the caption asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mulo_tools.bench.estimates import wilson_interval
from mulo_tools.reference.dataset import render_pictures
from mulo_tools.reference.gpt import GPT
from mulo_tools.reference.judge import judge
from mulo_tools.reference.render import Pixels
from mulo_tools.reference.sample import Sampling, sample_tokens
from mulo_tools.reference.scenes import KINDS, Scene, scenes_of
from mulo_tools.reference.vocabulary import scene_prompt_encoder
from mulo_tools.reference.vq import VQTokenizer, encode_pictures, to_pixels

BATCH = 48
"""Prompts that are sampled at a time."""
TEMPERATURES = (0.4, 0.5, 0.65, 0.8, 1.0)
"""A low temperature draws cleaner things, but on a large grid they hardly ever start."""
GUIDANCES = (1.0, 1.25, 1.5)


@dataclass(frozen=True, slots=True)
class Score:
    """Share of correct pictures among `count`, overall and by kind of scene."""

    count: int
    correct: float
    interval: tuple[float, float]
    kinds: dict[str, float]


def score_model(model: GPT, tokenizer: VQTokenizer, seeds: Sequence[int], sampling: Sampling) -> Score:
    """Sample the captions of the seeds and judge the decoded pictures."""
    encoder = scene_prompt_encoder()
    scenes = scenes_of(seeds)
    pictures = []
    for start in range(0, len(scenes), BATCH):
        captions = [scene.caption for scene in scenes[start : start + BATCH]]
        drawn = Sampling(sampling.temperature, sampling.guidance, sampling.seed + start)
        pictures.append(decode_pictures(tokenizer, sample_tokens(model, encoder, captions, drawn)))
    return score_pictures(np.concatenate(pictures), scenes)


def choose_sampling(model: GPT, tokenizer: VQTokenizer, seeds: Sequence[int]) -> dict[Sampling, Score]:
    """Scores on tuning prompts of all temperatures without guidance, then of the other guidances at the best."""
    scores: dict[Sampling, Score] = {}
    for temperature in TEMPERATURES:
        sampling = Sampling(temperature, GUIDANCES[0])
        scores[sampling] = score_model(model, tokenizer, seeds, sampling)
    best = best_sampling(scores)
    for guidance in GUIDANCES[1:]:
        sampling = Sampling(best.temperature, guidance)
        scores[sampling] = score_model(model, tokenizer, seeds, sampling)
    return scores


def best_sampling(scores: dict[Sampling, Score]) -> Sampling:
    """The sampling with the best score, the earliest of equals."""
    return max(scores, key=lambda sampling: scores[sampling].correct)


def score_reconstructions(tokenizer: VQTokenizer, seeds: Sequence[int], px: int) -> Score:
    """Judge what the tokenizer makes of ground-truth pictures: the ceiling of every model that uses it."""
    tokens = encode_pictures(tokenizer, render_pictures(seeds, px))
    return score_pictures(decode_pictures(tokenizer, torch.from_numpy(tokens.astype(np.int64))), scenes_of(seeds))


def score_pictures(pictures: Pixels, scenes: Sequence[Scene]) -> Score:
    """Judge pictures [n, px, px, 3] against their scenes."""
    correct = np.array([judge(*pair).correct for pair in zip(pictures, scenes, strict=True)])
    kinds = np.array([scene.kind for scene in scenes])
    low, high = wilson_interval(int(correct.sum()), len(correct))
    return Score(
        count=len(scenes),
        correct=round(float(correct.mean()), 4),
        interval=(round(low, 4), round(high, 4)),
        kinds={kind: round(float(correct[kinds == kind].mean()), 4) for kind in KINDS if kind in kinds},
    )


def decode_pictures(tokenizer: VQTokenizer, tokens: Tensor, batch: int = 16) -> Pixels:
    """Pictures [N, px, px, 3] of token grids [N, side * side]."""
    side = int(tokens.shape[1] ** 0.5)
    return np.concatenate(
        [to_pixels(tokenizer.decode(part.view(-1, side, side))) for part in torch.split(tokens, batch)]
    )
