"""Tiny checkpoints with random weights, and real bundles made of them by the exporter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from mulo_engines.bundle import describe_file
from mulo_engines.manifest import MANIFEST_NAME, read_manifest, write_manifest
from mulo_export.bundle_writer import write_bundle
from mulo_export.options import ExportOptions
from mulo_export.precision import Precision
from mulo_export.sources import Sources, read_source_eagle, read_source_tokenizer, read_source_transformer, read_sources
from mulo_runtime.prompt import WordPromptEncoder
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

__all__ = [
    "CLASSES",
    "VOCABULARY",
    "Checkpoints",
    "broken_decoder_bundle",
    "die",
    "eagle_tensors",
    "prompt_encoder",
    "tiny_bundle",
    "tiny_checkpoints",
    "tiny_options",
    "tiny_sources",
    "transformer_tensors",
    "vq_tensors",
    "without_witness",
]

Tensors = dict[str, NDArray[Any]]

VOCABULARY = 64
CLASSES = 5
DRAFTER_GRID = 4
_WORDS = ("a", "red", "blue", "circle", "square", "and")
_PREFIX = 6
_CODE_WIDTH = 4


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Paths of checkpoints that belong together; `prompt` is None for a class-conditional pair, `eagle` the head."""

    drafter: Path
    target: Path
    vq: Path
    prompt: Path | None
    eagle: Path


def prompt_encoder() -> WordPromptEncoder:
    """Six words, one-hot in each of two phrases and with or without "and"."""
    words = {word: number for number, word in enumerate(_WORDS)}
    table = np.eye(4 * len(_WORDS), dtype=np.float32)
    return WordPromptEncoder(words, frozenset({"circle", "square"}), {"and": 1}, table, _PREFIX)


def tiny_checkpoints(directory: Path, *, ratio: int = 2, text: bool = True) -> Checkpoints:
    """Write a drafter of 4 x 4 tokens, a target `ratio` times as wide, a VQ, a head and, for text, word tables."""
    paths = Checkpoints(
        directory / "drafter.safetensors",
        directory / "target.safetensors",
        directory / "vq.safetensors",
        directory / "prompt.safetensors" if text else None,
        directory / "eagle.safetensors",
    )
    for seed, (path, grid) in enumerate([(paths.drafter, DRAFTER_GRID), (paths.target, DRAFTER_GRID * ratio)]):
        save_file(transformer_tensors(np.random.default_rng(seed), text=text), path, {"n_head": "2", "grid": str(grid)})
    save_file(vq_tensors(np.random.default_rng(2)), paths.vq, {"groups": "4", "norm_eps": "1e-06"})
    save_file(eagle_tensors(np.random.default_rng(3)), paths.eagle, {"n_head": "2"})
    if paths.prompt is not None:
        prompt_encoder().save(paths.prompt)
    return paths


def tiny_sources(checkpoints: Checkpoints, *, eagle: bool = False) -> Sources:
    """The headers of `checkpoints`, as the exporter wants them, the head's where `eagle`."""
    drafter, target = (
        read_source_transformer(path, grid=None, heads=None) for path in (checkpoints.drafter, checkpoints.target)
    )
    tokenizer, head = (
        read_source_tokenizer(checkpoints.vq),
        read_source_eagle(checkpoints.eagle if eagle else None, target),
    )
    return read_sources(drafter, target, tokenizer, checkpoints.prompt, eagle=head)


def tiny_options(**changes: Any) -> ExportOptions:
    """Options of a float32 bundle whose parity is not checked."""
    options = ExportOptions(
        precision=Precision.FP32,
        pool_k_max=16,
        sampling={"guidance_scale": 2.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0},
        mulo={"tau": 0.1, "pool_k": 4, "radius": 1},
        skip_parity=True,
        examples=("red circle and blue square", "a blue circle"),
    )
    return replace(options, **changes)


def tiny_bundle(directory: Path, *, ratio: int = 2, text: bool = True, eagle: bool = False, **changes: Any) -> Path:
    """Export tiny checkpoints into `directory` / bundle, in well under a second."""
    checkpoints = tiny_checkpoints(directory, ratio=ratio, text=text)
    write_bundle(tiny_sources(checkpoints, eagle=eagle), tiny_options(**changes), directory / "bundle", lambda _: None)
    return directory / "bundle"


def broken_decoder_bundle(directory: Path, value: float) -> Path:
    """`tiny_bundle`, whose tokenizer adds `value` to one colour of every image that it decodes."""
    checkpoints = tiny_checkpoints(directory)
    tensors = load_file(checkpoints.vq)
    tensors["decoder.conv_out.bias"][1] = value
    save_file(tensors, checkpoints.vq, {"groups": "4", "norm_eps": "1e-06"})
    write_bundle(tiny_sources(checkpoints), tiny_options(), directory / "bundle", lambda _: None)
    return directory / "bundle"


def without_witness(bundle: Path, folder: Path) -> Path:
    """A copy of `bundle` in `folder` whose decoder is that of an older export, which tells no witness."""
    shutil.copytree(bundle, folder)
    manifest, path = read_manifest(folder / MANIFEST_NAME), folder / "decoder.onnx"
    decoder = onnx.load(path, load_external_data=False)
    decoder.graph.output.remove(next(output for output in decoder.graph.output if output.name == "witness"))
    path.write_bytes(decoder.SerializeToString())
    files = tuple(describe_file(folder, file.path) for file in manifest.files)
    write_manifest(manifest.model_copy(update={"files": files, "decoder_witness": False}), folder)
    return folder


def die(*_: object) -> None:
    """End the process at once, as one does that the system kills."""
    os._exit(9)


def transformer_tensors(
    rng: np.random.Generator, *, text: bool = True, layers: int = 2, dim: int = 32, ffn: int = 48
) -> Tensors:
    """A transformer in LlamaGen's layout whose logits are spread widely enough to tell tokens apart."""
    features = prompt_encoder().width
    shapes: dict[str, tuple[int, ...]] = {
        "tok_embeddings.weight": (VOCABULARY, dim),
        "output.weight": (VOCABULARY, dim),
    }
    for layer in range(layers):
        stem = f"layers.{layer}"
        shapes |= {f"{stem}.attention.wqkv.weight": (3 * dim, dim), f"{stem}.attention.wo.weight": (dim, dim)}
        shapes |= {f"{stem}.feed_forward.{w}.weight": (ffn, dim) for w in ("w1", "w3")}
        shapes |= {f"{stem}.feed_forward.w2.weight": (dim, ffn)}
        shapes |= {f"{stem}.{norm}.weight": (dim,) for norm in ("attention_norm", "ffn_norm")}
    shapes |= {"norm.weight": (dim,)}
    shapes |= _text_condition(dim, features) if text else {"cls_embedding.embedding_table.weight": (CLASSES + 1, dim)}
    return _random(rng, shapes)


def eagle_tensors(rng: np.random.Generator, *, dim: int = 32, ffn: int = 48) -> Tensors:
    """An EAGLE-1 head of that transformer's width, which knows nothing of it."""
    layer = transformer_tensors(rng, layers=1, dim=dim, ffn=ffn)
    kept = {name: value for name, value in layer.items() if name.startswith("layers.") and "attention_norm" not in name}
    return kept | _random(rng, {"fc.weight": (dim, 2 * dim), "fc.bias": (dim,)})


def vq_tensors(rng: np.random.Generator, *, vocabulary: int = VOCABULARY, channels: int = 8) -> Tensors:
    """A VQ tokenizer in LlamaGen's layout, without attention, of two downsamplings."""
    shapes: dict[str, tuple[int, ...]] = {"quantize.embedding.weight": (vocabulary, _CODE_WIDTH)}
    for side, inputs, outputs in (("encoder", 3, channels), ("decoder", channels, 3)):
        shapes |= _conv(f"{side}.conv_in", inputs, channels) | _conv(f"{side}.conv_out", channels, outputs)
        shapes |= _norm(f"{side}.norm_out", channels) | _res(f"{side}.mid.0", channels)
        for level in range(3):
            shapes |= _res(f"{side}.conv_blocks.{level}.res.0", channels)
        for level in range(2):
            resample = "downsample" if side == "encoder" else "upsample"
            shapes |= _conv(f"{side}.conv_blocks.{level}.{resample}.conv", channels, channels)
    shapes |= _conv("quant_conv", channels, _CODE_WIDTH, 1) | _conv("post_quant_conv", _CODE_WIDTH, channels, 1)
    return _random(rng, shapes)


def _text_condition(dim: int, features: int) -> dict[str, tuple[int, ...]]:
    return {
        "cls_embedding.cap_proj.fc1.weight": (dim, features),
        "cls_embedding.cap_proj.fc2.weight": (dim, dim),
        "cls_embedding.uncond_embedding": (_PREFIX, features),
    }


def _conv(stem: str, inputs: int, outputs: int, width: int = 3) -> dict[str, tuple[int, ...]]:
    return {f"{stem}.weight": (outputs, inputs, width, width), f"{stem}.bias": (outputs,)}


def _norm(stem: str, channels: int) -> dict[str, tuple[int, ...]]:
    return {f"{stem}.weight": (channels,), f"{stem}.bias": (channels,)}


def _res(stem: str, channels: int) -> dict[str, tuple[int, ...]]:
    norms = _norm(f"{stem}.norm1", channels) | _norm(f"{stem}.norm2", channels)
    return norms | _conv(f"{stem}.conv1", channels, channels) | _conv(f"{stem}.conv2", channels, channels)


def _random(rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]]) -> Tensors:
    """Normal weights scaled by their fan-in; norm scales near one, biases near zero."""
    return {name: _random_tensor(rng, name, shape) for name, shape in shapes.items()}


def _random_tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    draw = rng.standard_normal(shape, np.float32)
    if len(shape) > 1:
        return draw / np.float32(np.sqrt(np.prod(shape[1:])))
    return np.float32("norm" in name and name.endswith("weight")) + np.float32(0.1) * draw
