"""From TA-Tok codes to the prefix: the folded graph and the numpy reference against torch's own layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from golden_models import load_graph
from mulo_engines.errors import CheckpointError
from mulo_export import fold_ta_tok as folding
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.family import is_ta_tok
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.checkpoints.ta_tok import read_ta_tok
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.fold_ta_tok import fold_ta_tok, resize_matrix
from mulo_export.graphs.condition import condition_graph
from mulo_export.graphs.ta_tok import FoldedTaTok
from mulo_export.reference.ta_tok import ReferenceTaTok
from mulo_export.weights import convert_weights
from numpy.typing import NDArray
from safetensors.numpy import save_file
from ta_tok_model import torch_features
from tar_checkpoints import TA_TOK, ar_dtok_tensors, ta_tok_tensors, unused_tensors
from tensor_changes import Change, Tensors, drop, put
from torch_checkpoints import save_tar

LENGTHS = (729, 169, 81)
CONFIG = replace(TA_TOK, side=16, layers=3, codes=500)
TOLERANCE = 1e-4


def _file(folder: Path, tensors: Tensors) -> TensorFile:
    save_file(tensors, folder / "ta_tok.safetensors")
    return read_tensor_file(folder / "ta_tok.safetensors")


def _codes(length: int) -> NDArray[np.int64]:
    return np.random.default_rng(length).integers(CONFIG.codes, size=(2, length))


def _prefix(folder: Path, length: int, dtype: str = "F32") -> NDArray[Any]:
    """What the condition graph makes of `_codes`: [4, length, dim]."""
    metadata = {"n_head": "2", "cls_token_num": str(length)}
    save_file(ar_dtok_tensors(4, prefix=length), folder / "exact.safetensors", metadata)
    convert_weights(read_tensor_file(folder / "exact.safetensors"), folder / "model", dtype, _ignore)
    fold_ta_tok(CONFIG, _file(folder, ta_tok_tensors(CONFIG)), length, folder / "folded", dtype, _ignore)
    model, folded = (
        read_tensor_file(folder / "model"),
        FoldedTaTok(CONFIG, read_tensor_file(folder / "folded"), "folded"),
    )
    graph = condition_graph(read_transformer(model), model, "model", folded)
    with load_graph(graph, folder / "condition.onnx") as engine:
        return engine.run_once({"ta_tok_codes": _codes(length)})["cond_embeds"]


def _ignore(count: int) -> None:
    del count


@pytest.mark.parametrize("length", LENGTHS)
def test_the_condition_graph_equals_torch_at_every_published_length(length: int, tmp_path: Path) -> None:
    model = ar_dtok_tensors(4, prefix=length)
    features = torch_features(ta_tok_tensors(CONFIG), _codes(length), CONFIG.heads)
    expected = features @ model["clip_proj.weight"].T + model["clip_proj.bias"]
    given, null = np.split(_prefix(tmp_path, length), 2)
    assert np.abs(given - expected).max() < TOLERANCE
    assert np.array_equal(null, np.broadcast_to(model["clip_proj.bias"], null.shape))


@pytest.mark.parametrize("length", LENGTHS)
def test_the_reference_equals_torch_at_every_published_length(length: int, tmp_path: Path) -> None:
    reference = ReferenceTaTok(CONFIG, _file(tmp_path, ta_tok_tensors(CONFIG)))
    expected = torch_features(ta_tok_tensors(CONFIG), _codes(length), CONFIG.heads)
    assert np.abs(reference.features(_codes(length)) - expected).max() < TOLERANCE


@pytest.mark.parametrize(("size", "source"), [(27, 16), (13, 16), (9, 16), (16, 16), (3, 4), (1, 5)])
def test_positions_are_resized_as_torch_resizes_with_antialiasing(size: int, source: int) -> None:
    assert np.abs(resize_matrix(size, source) - _torch_resize_matrix(size, source, antialias=True)).max() < 1e-6


def _torch_resize_matrix(size: int, source: int, *, antialias: bool) -> NDArray[np.float64]:
    """Torch's interpolation [size, source] along the rows of an image of four equal columns."""
    image = torch.eye(source)[None, :, :, None].repeat(1, 1, 1, 4)
    resized = torch.nn.functional.interpolate(image, (size, 4), mode="bilinear", antialias=antialias)
    return resized[0, :, :, 0].T.double().numpy()


def test_the_length_of_a_projected_code_does_not_matter(tmp_path: Path) -> None:
    tensors = ta_tok_tensors(CONFIG)
    expected = torch_features(tensors, _codes(81), CONFIG.heads)
    for end in ("weight", "bias"):
        tensors[f"bottleneck.regularizer.embedding_proj.{end}"] *= 2
    features = ReferenceTaTok(CONFIG, _file(tmp_path, tensors)).features(_codes(81))
    assert np.abs(features - expected).max() < TOLERANCE


def test_positions_that_are_not_averaged_where_they_shrink_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = _prefix(tmp_path, 81)
    (tmp_path / "sharp").mkdir()
    monkeypatch.setattr(folding, "resize_matrix", partial(_torch_resize_matrix, antialias=False))
    assert np.abs(_prefix(tmp_path / "sharp", 81) - right).max() > 10 * TOLERANCE


def test_half_precision_stays_near_full(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    exact, half = _prefix(tmp_path, 81), _prefix(tmp_path / "half", 81, "F16")
    assert np.linalg.norm(half - exact) < 2e-2 * np.linalg.norm(exact)


def test_the_published_file_is_read_and_what_decoding_does_not_read_is_left(tmp_path: Path) -> None:
    path = save_tar(tmp_path / "ta_tok.pth", ta_tok_tensors(CONFIG) | unused_tensors(), {}, name="ta_tok")
    file = read_checkpoint(path)
    assert is_ta_tok(file)
    assert read_ta_tok(file) == CONFIG


def test_what_decoding_does_not_read_is_logged_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = _file(tmp_path, ta_tok_tensors(TA_TOK) | unused_tensors())
    with caplog.at_level("INFO"):
        read_ta_tok(file)
    assert len(caplog.messages) == len(unused_tensors())
    assert all(any(name in message for message in caplog.messages) for name in unused_tensors())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("bottleneck.regularizer.embedding.weight"), "not a TA-Tok"),
        (drop("bottleneck.out_linear.weight"), "bottleneck.out_linear.weight' tells a size"),
        (drop("decode_task_layer.2.bias"), "decode_task_layer.2.bias is missing"),
        (put("decoder.vision_model.encoder.layers.1.mlp.fc2.weight", 5, 5), r"fc2.weight is \[5, 5\]"),
        (put("decoder.vision_model.encoder.layers.0.adapter", 5), "adapter is not part of the model"),
    ],
)
def test_missing_misshapen_and_surplus_tensors_are_refused(change: Change, message: str, tmp_path: Path) -> None:
    tensors = ta_tok_tensors(TA_TOK)
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        read_ta_tok(_file(tmp_path, tensors))
