"""The golden outputs again, from the files that people have: every published container gives the published model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_models import TOLERANCE, WEIGHTS, GoldenModel, golden_tensors, read_golden
from golden_tokenizer import DECODE_TOLERANCE, GoldenTokenizer
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.read_transformer import read_transformer, transformer_shapes
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import read_vq, vq_shapes
from mulo_export.weights import convert_weights
from torch_checkpoints import LAYOUTS, save_layout, save_tar

CONTAINERS = [
    *((name, layout) for name in ("llamagen_c2i", "llamagen_t2i") for layout in LAYOUTS),
    ("tar_ar_dtok", "tar"),
]


def _open(name: str, layout: str, folder: Path) -> GoldenModel:
    """The golden model `name` after it went through a container into the weights of a bundle."""
    stored, meta = read_golden(name)
    arguments, tensors = meta["args"], golden_tensors(meta)
    if layout == "tar":
        file = read_checkpoint(save_tar(folder / "model.pth", tensors, arguments))
        config = read_transformer(file, heads=arguments["n_head"])
    else:
        tensors["freqs_cis"] = np.zeros((3, 2), np.float32)
        file = read_checkpoint(save_layout(folder / "model.pt", tensors, layout))
        config = read_transformer(file, heads=arguments["n_head"], grid=round(arguments["block_size"] ** 0.5))
    written = _as_written(file.only(transformer_shapes(config)), folder)
    return GoldenModel(written, config, stored, meta["cfg_scale"])


def _as_written(file: TensorFile, folder: Path) -> TensorFile:
    convert_weights(file, folder / WEIGHTS, "F32", lambda _: None)
    return read_tensor_file(folder / WEIGHTS)


@pytest.mark.parametrize(("name", "layout"), CONTAINERS)
def test_the_golden_logits_come_out_of_every_container(name: str, layout: str, tmp_path: Path) -> None:
    model = _open(name, layout, tmp_path)
    with model.transformer() as engine:
        logits = engine.run_once(model.step(model.embeddings(), model.stored["tokens"]))["logits"]
    assert model.error(logits) < TOLERANCE


def test_gpt_b_comes_out_of_its_published_container(tmp_path: Path) -> None:
    model = _open("llamagen_gpt_b", "model", tmp_path)
    with model.transformer() as engine:
        logits = engine.run_once(model.step(model.embeddings(), model.stored["tokens"]))["logits"]
    for path in tmp_path.iterdir():
        path.unlink()
    assert model.error(logits) < TOLERANCE


def test_the_tokenizer_comes_out_of_its_published_container(tmp_path: Path) -> None:
    stored, meta = read_golden("vq16")
    file = read_checkpoint(save_layout(tmp_path / "vq_ds16_t2i.pt", golden_tensors(meta), "trainer"))
    config = read_vq(file)
    tokenizer = GoldenTokenizer(_as_written(file.only(vq_shapes(config)), tmp_path), config, stored)
    with tokenizer.decode_graph() as engine:
        (image,) = engine.run_once({"token_ids": stored["codes"].reshape(1, 4, 4)}).values()
    for path in tmp_path.iterdir():
        path.unlink()
    assert tokenizer.decode_error(image) < DECODE_TOLERANCE
