"""What the tokenizer makes of ground-truth pictures: the textures that a perfect target would reach."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
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
from mulo_tools.bench.texture import texture_features
from mulo_tools.reference.dataset import publish_array, render_pictures
from mulo_tools.reference.render import Pixels

__all__ = ["reconstruction_textures"]

_WEIGHTS = "weights/vq.safetensors"
_BATCH = 8


def reconstruction_textures(bundle: Bundle, split: str, count: int, cache: Path | None) -> NDArray[np.float64]:
    """Texture features of reconstructed ground truth at the target's resolution; [count, 64].

    Args:
        bundle: brings the tokenizer.
        split: the split whose scenes are rendered.
        count: how many scenes.
        cache: folder where they are kept for the next time, by the tokenizer's SHA-256; None keeps nothing.
    """
    px = bundle.manifest.target.rows * bundle.manifest.pixels_per_token
    digest = next(record.sha256 for record in bundle.manifest.files if record.path == _WEIGHTS)
    path = cache and cache / f"textures-{digest[:16]}-{px}px-{split}-{count}.npy"
    if path and path.exists():
        return np.asarray(np.load(path), np.float64)
    with _tokenizer(bundle) as (encoder, decoder):
        seeds = SPLITS[split][:count]
        batches = (seeds[start : start + _BATCH] for start in range(0, count, _BATCH))
        textures = np.concatenate([_textures(encoder, decoder, render_pictures(batch, px)) for batch in batches])
    if path:
        publish_array(path, textures)
    return textures


def _textures(encoder: Engine, decoder: Engine, pictures: Pixels) -> NDArray[np.float64]:
    floats = np.ascontiguousarray(pictures.transpose(0, 3, 1, 2), np.float32) / np.float32(127.5) - np.float32(1)
    tokens = encoder.run_once({"image": floats})["token_ids"]
    return np.stack([texture_features(image) for image in decoder.run_once({"token_ids": tokens})["image"]])


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
