"""Training data on disk: pictures for the tokenizer and token grids for the GPTs, rendered once and reused.

Everything follows from the scene seeds, so a cache can be deleted at any time. Files are published by renaming.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mulo_tools.reference.render import Pixels, downscale, render_seed
from mulo_tools.reference.scenes import TRAINING_SEEDS, scenes_of

Item = TypeVar("Item")
Made = TypeVar("Made")

RESOLUTIONS = (32, 64, 128)
CHUNK = 250
"""Scenes that a worker renders at a time."""


def load_pictures(folder: Path, count: int, workers: int = 1) -> dict[int, NDArray[np.uint8]]:
    """Pictures [count, px, px, 3] of the first training scenes at every resolution, rendered when they are missing."""
    paths = {px: folder / f"pictures-{count}-{px}px.npy" for px in RESOLUTIONS}
    if not all(path.exists() for path in paths.values()):
        chunks = _map(_render_chunk, _chunks(0, count), workers)
        for px, path in paths.items():
            publish_array(path, np.concatenate([chunk[px] for chunk in chunks]))
    return {px: np.load(path, mmap_mode="r") for px, path in paths.items()}


def load_tokens(
    folder: Path, tokenizer: Path, counts: Mapping[int, int], workers: int = 1
) -> dict[int, NDArray[np.uint16]]:
    """Token grids [count, (px / 4) ** 2] of the first training scenes; `counts` says how many at each resolution."""
    paths = {px: folder / f"tokens-{count}-{px}px.npy" for px, count in counts.items()}
    if not all(path.exists() for path in paths.values()):
        work = partial(_encode_chunk, tokenizer=tokenizer, counts=dict(counts))
        chunks = _map(work, _chunks(0, max(counts.values())), workers)
        for px, path in paths.items():
            publish_array(path, np.concatenate([chunk[px] for chunk in chunks if px in chunk])[: counts[px]])
    return {px: np.load(path) for px, path in paths.items()}


def publish_array(path: Path, values: NDArray[np.generic]) -> None:
    """Write an array to a .npy file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.partial.npy")
    np.save(unfinished, values)
    unfinished.rename(path)


def render_pictures(seeds: Iterable[int], px: int) -> Pixels:
    """Pictures [n, px, px, 3] of the scenes of the seeds."""
    seeds = list(seeds)
    pairs = zip(scenes_of(seeds), seeds, strict=True)
    return np.stack([downscale(render_seed(scene, seed), px) for scene, seed in pairs])


def _chunks(start: int, stop: int) -> list[range]:
    seeds = TRAINING_SEEDS[start:stop]
    return [seeds[first : first + CHUNK] for first in range(0, len(seeds), CHUNK)]


def _render_chunk(seeds: range) -> dict[int, Pixels]:
    full = render_pictures(seeds, max(RESOLUTIONS))
    return {px: np.stack([downscale(image, px) for image in full]) for px in RESOLUTIONS}


def _encode_chunk(seeds: range, tokenizer: Path, counts: Mapping[int, int]) -> dict[int, NDArray[np.uint16]]:
    from mulo_tools.reference.vq import encode_pictures
    from mulo_tools.reference.weights_file import load_tokenizer

    model = load_tokenizer(tokenizer)
    full = render_pictures(seeds, max(RESOLUTIONS))
    wanted = [px for px, count in counts.items() if seeds.start < count]
    return {px: encode_pictures(model, np.stack([downscale(image, px) for image in full])) for px in wanted}


def _map(work: Callable[[Item], Made], items: list[Item], workers: int) -> list[Made]:
    if workers == 1:
        return [work(item) for item in items]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return pool.map(work, items, chunksize=1)
