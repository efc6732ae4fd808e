"""What the tokenizer makes of ground-truth pictures: the features that a perfect target would reach."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from mulo_engines.backends import open_backend
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.checkpoints.vq import read_vq
from mulo_export.graphs.vq import vq_encode_graph
from numpy.typing import NDArray

from mulo_tools.bench.cases import SPLITS
from mulo_tools.reference.dataset import publish_array, render_pictures
from mulo_tools.reference.render import Pixels

__all__ = ["Describe", "reconstruction_features"]

_WEIGHTS = "weights/vq.safetensors"
_BATCH = 8


Describe = Callable[[Pixels], NDArray[np.floating]]
"""Features of one picture [height, width, 3]."""


def reconstruction_features(
    bundle: Bundle, split: str, count: int, kinds: Mapping[str, Describe], cache: Path | None
) -> dict[str, NDArray[np.float64]]:
    """Features of reconstructed ground truth at the target's resolution; [count, features] of every kind.

    Args:
        bundle: brings the tokenizer.
        split: the split whose scenes are rendered.
        count: how many scenes.
        kinds: kinds of features, by the name that their file gets.
        cache: folder where they are kept for the next time, by the tokenizer's SHA-256; None keeps nothing.
    """
    px = bundle.manifest.target.rows * bundle.manifest.pixels_per_token
    digest = next(record.sha256 for record in bundle.manifest.files if record.path == _WEIGHTS)
    paths = {kind: cache and cache / f"{kind}-{digest[:16]}-{px}px-{split}-{count}.npy" for kind in kinds}
    found = {kind: np.asarray(np.load(path), np.float64) for kind, path in paths.items() if path and path.exists()}
    missing = {kind: describe for kind, describe in kinds.items() if kind not in found}
    if not missing:
        return found
    made = _described(bundle, SPLITS[split][:count], px, missing)
    for kind, features in made.items():
        if path := paths[kind]:
            publish_array(path, features)
    return {**found, **made}


def _described(
    bundle: Bundle, seeds: Sequence[int], px: int, kinds: Mapping[str, Describe]
) -> dict[str, NDArray[np.float64]]:
    rows: dict[str, list[NDArray[np.floating]]] = {kind: [] for kind in kinds}
    with _tokenizer(bundle) as (encoder, decoder):
        for start in range(0, len(seeds), _BATCH):
            for image in _reconstructed(encoder, decoder, render_pictures(seeds[start : start + _BATCH], px)):
                for kind, describe in kinds.items():
                    rows[kind].append(describe(image))
    return {kind: np.array(features, np.float64) for kind, features in rows.items()}


def _reconstructed(encoder: Engine, decoder: Engine, pictures: Pixels) -> Pixels:
    floats = np.ascontiguousarray(pictures.transpose(0, 3, 1, 2), np.float32) / np.float32(127.5) - np.float32(1)
    tokens = encoder.run_once({"image": floats})["token_ids"]
    return np.asarray(decoder.run_once({"token_ids": tokens})["image"])


@contextmanager
def _tokenizer(bundle: Bundle) -> Iterator[tuple[Engine, Engine]]:
    """The encoder, which a bundle has only inside its upsampler, and the decoder."""
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "vq_encode.onnx"
        weights = Path(folder) / _WEIGHTS
        weights.parent.mkdir()
        shutil.copyfile(bundle.file(_WEIGHTS), weights)
        file = read_tensor_file(weights)
        vq_encode_graph(read_vq(file), file, _WEIGHTS).save(graph)
        with (
            OnnxRuntimeEngine.load(graph, name="vq_encode", threads=1, spinning=False) as encoder,
            open_backend("onnxruntime", threads=1, spinning=False).load(bundle, "decoder") as decoder,
        ):
            yield encoder, decoder
