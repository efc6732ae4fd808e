"""How well images fit their prompts by CLIP, of the user's copy of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from mulo_engines.errors import RequestError
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity
from transformers import CLIPModel, CLIPProcessor

__all__ = ["clip_score"]


@torch.no_grad()
def clip_score(model: Path, batches: Iterable[tuple[list[NDArray[np.uint8]], Sequence[str]]]) -> float:
    """Mean CLIP score: 100 times the cosine of image and prompt, at least 0 (arXiv 2104.08718).

    Args:
        model: a folder such as openai/clip-vit-large-patch14, with model.safetensors; nothing is downloaded.
        batches: images [height, width, 3] and their prompts.

    Raises:
        RequestError: the folder holds no CLIP.
    """
    network, processor = _load(model)
    scores = [_scores(network, processor, images, prompts) for images, prompts in batches]
    return max(100 * float(torch.cat(scores).mean()), 0.0)


def _scores(
    network: CLIPModel, processor: CLIPProcessor, images: list[NDArray[np.uint8]], prompts: Sequence[str]
) -> Tensor:
    """Cosines; [n]. Prompts are cut where the text tower ends."""
    inputs = processor(text=list(prompts), images=images, return_tensors="pt", padding=True, truncation=True)
    outputs = network(**inputs)
    return cosine_similarity(outputs.image_embeds, outputs.text_embeds)


def _load(folder: Path) -> tuple[CLIPModel, CLIPProcessor]:
    try:
        network = CLIPModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        return network.train(False), CLIPProcessor.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise RequestError(
            f"{folder}: no CLIP can be read", found=error, expected="a folder with config.json and model.safetensors"
        ) from error
