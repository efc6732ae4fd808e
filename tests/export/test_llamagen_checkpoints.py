"""What a LlamaGen transformer's file tells, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundles import transformer_tensors
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.family import is_llamagen
from mulo_export.checkpoints.read_transformer import read_transformer
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_tools.synthetic import preset_config, write_random_checkpoint
from safetensors.numpy import save_file
from tensor_changes import Change, Tensors, drop, put

TOLD = {"n_head": "2", "grid": "8"}


def _file(folder: Path, tensors: Tensors, metadata: dict[str, str] | None) -> TensorFile:
    save_file(tensors, folder / "model.safetensors", metadata)
    return read_tensor_file(folder / "model.safetensors")


def _tensors(*, text: bool = True) -> Tensors:
    return transformer_tensors(np.random.default_rng(0), text=text)


def test_a_text_conditional_model_is_read_from_keys_shapes_and_metadata(tmp_path: Path) -> None:
    config = read_transformer(_file(tmp_path, _tensors(), TOLD))
    assert config == TransformerConfig(
        family="llamagen-t2i",
        layers=2,
        heads=2,
        dim=32,
        ffn=48,
        vocabulary=64,
        grid=8,
        prefix=6,
        feature_size=config.feature_size,
        classes=None,
    )
    assert config.positions == 6 + 64
    assert config.head_dim == 16


def test_a_class_conditional_model_has_one_prefix_position_and_a_null_class_more_than_classes(tmp_path: Path) -> None:
    config = read_transformer(_file(tmp_path, _tensors(text=False), TOLD))
    assert (config.family, config.prefix, config.classes, config.feature_size) == ("llamagen-c2i", 1, 5, None)


def test_heads_and_grid_may_be_arguments_where_the_file_is_silent(tmp_path: Path) -> None:
    config = read_transformer(_file(tmp_path, _tensors(), None), grid=8, heads=2)
    assert (config.grid, config.heads) == (8, 2)


@pytest.mark.parametrize(
    ("name", "pixels_per_token", "grid"),
    [
        ("c2i_B_256.pt", 16, 16),
        ("c2i_XXL_384.pt", 16, 24),
        ("t2i_XL_stage1_256.pt", 16, 16),
        ("t2i_XL_stage2_512.safetensors", 16, 32),
        ("c2i_B_256.pt", 8, 32),
    ],
)
def test_the_grid_is_that_of_the_images_in_the_files_name(
    name: str, pixels_per_token: int, grid: int, tmp_path: Path
) -> None:
    file = _file(tmp_path, _tensors(), {"n_head": "2"})
    named = replace(file, path=file.path.with_name(name))
    assert read_transformer(named, pixels_per_token=pixels_per_token).grid == grid
    assert read_transformer(named, pixels_per_token=pixels_per_token, grid=grid).grid == grid
    with pytest.raises(CheckpointError, match="another stage than the file's name says"):
        read_transformer(named, pixels_per_token=pixels_per_token, grid=2 * grid)


@pytest.mark.parametrize("name", ["model.pt", "c2i_B_256_to_384.pt", "step_0025600.pt"])
def test_a_name_that_tells_no_side_or_two_tells_no_grid(name: str, tmp_path: Path) -> None:
    file = _file(tmp_path, _tensors(), {"n_head": "2"})
    with pytest.raises(CheckpointError, match=r"(?s)no side of an image in the name.*--target-grid"):
        read_transformer(replace(file, path=file.path.with_name(name)))


@pytest.mark.parametrize("preset", ["B", "L", "XL", "XXL", "XXXL", "1B", "3B", "7B"])
@pytest.mark.parametrize("text", [True, False])
def test_published_sizes_need_no_heads(preset: str, text: bool, tmp_path: Path) -> None:
    expected = preset_config(preset, text=text, grid=16)
    write_random_checkpoint(tmp_path / "model", expected, sparse=True)
    file = read_tensor_file(tmp_path / "model")
    silent = TensorFile(file.path, file.tensors, {})
    assert read_transformer(silent, grid=16) == expected


@pytest.mark.parametrize(
    ("metadata", "arguments", "message"),
    [
        (None, {"grid": 8}, "--target-heads"),
        (None, {"heads": 2}, "--target-grid"),
        (TOLD | {"n_head": "two"}, {}, "not a number"),
        (TOLD | {"n_head": "3"}, {}, "3 attention heads do not fit a model of width 32"),
        (TOLD | {"n_head": "16"}, {}, "multiple of 4"),
        (TOLD, {"heads": 4}, "n_head that was given is not the one"),
        (TOLD, {"grid": 16}, "grid that was given is not the one"),
        (TOLD | {"grid": "0"}, {}, "do not tell the grid"),
    ],
)
def test_heads_or_a_grid_that_nothing_tells_or_that_cannot_be_are_refused(
    metadata: dict[str, str] | None, arguments: dict[str, int], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_transformer(_file(tmp_path, _tensors(), metadata), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("layers.1.attention.wo.weight"), "layers.1.attention.wo.weight is missing"),
        (drop("norm.weight"), "norm.weight is missing"),
        (drop("cls_embedding.cap_proj.fc2.weight"), "fc2.weight is missing"),
        (drop("layers.0.feed_forward.w1.weight"), "w1.weight' tells a size"),
        (put("layers.0.feed_forward.w1.weight", 48, 31), r"\[48, 31\], expected \[48, 32\]"),
        (put("layers.1.attention.wqkv.weight", 64, 32), r"\[64, 32\], expected \[96, 32\]"),
        (put("norm.weight", 32, dtype="int64"), "norm.weight is I64"),
        (put("layers.0.attention.wqkv.bias", 96), "wqkv.bias is not part of the model"),
        (put("layers.7.ffn_norm.weight", 32), "layers.2.ffn_norm.weight is missing"),
        (put("cls_embedding.embedding_table.weight", 6, 32), "embedding_table.weight is not part of the model"),
    ],
)
def test_missing_misshapen_and_surplus_tensors_are_refused(change: Change, message: str, tmp_path: Path) -> None:
    tensors = _tensors()
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        read_transformer(_file(tmp_path, tensors, TOLD))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    tensors = _tensors()
    del tensors["norm.weight"]
    tensors["output.weight"] = np.zeros((63, 32), np.float32)
    tensors["surplus"] = np.zeros(1, np.float32)
    with pytest.raises(CheckpointError, match=r"(?s)norm\.weight is missing.*output\.weight is.*surplus is not part"):
        read_transformer(_file(tmp_path, tensors, TOLD))


def test_a_stray_rotary_table_is_ignored(tmp_path: Path) -> None:
    tensors = _tensors() | {"freqs_cis": np.zeros((70, 8, 2), np.float32)}
    assert read_transformer(_file(tmp_path, tensors, TOLD)).layers == 2


@pytest.mark.parametrize("change", [drop("tok_embeddings.weight"), put("abs_pe", 1, 72, 32)])
def test_other_architectures_are_not_taken_for_llamagen(change: Change, tmp_path: Path) -> None:
    tensors = _tensors()
    change(tensors)
    file = _file(tmp_path, tensors, TOLD)
    assert not is_llamagen(file)
    with pytest.raises(CheckpointError, match="not a transformer of LlamaGen or Tar"):
        read_transformer(file)
