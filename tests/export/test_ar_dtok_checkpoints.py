"""What an AR-DTok's file tells, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_models import load_graph
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.read_transformer import read_transformer, transformer_shapes
from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord, read_tensor_file
from mulo_export.checkpoints.transformer import TransformerConfig
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.reference.sequence import raster_mask, teacher_forced
from mulo_export.reference.transformer import ReferenceTransformer
from safetensors.numpy import save_file
from tar_checkpoints import TA_TOK, ar_dtok_tensors, fixed_positions
from tensor_changes import Change, Tensors, drop, put
from torch_checkpoints import save_tar

PUBLISHED = {
    "S": (12, 6, 384, 1024),
    "B": (12, 12, 768, 2048),
    "L": (24, 16, 1024, 2816),
    "LP": (30, 20, 1280, 3584),
    "XL": (36, 20, 1280, 3584),
    "XXL": (48, 24, 1536, 4096),
    "XXXL": (48, 40, 2560, 6912),
}
"""Layers, heads, width and inner width of the registry's sizes."""


def _published(preset: str, grid: int, prefix: int = 729) -> TransformerConfig:
    layers, heads, dim, ffn = PUBLISHED[preset]
    rows = grid**2 + prefix - 1
    return TransformerConfig("tar", layers, heads, dim, ffn, 16384, grid, prefix, 1152, None, rows)


def _bare(config: TransformerConfig, name: str = "model.pth", metadata: dict[str, str] | None = None) -> TensorFile:
    """A file of `config` that was never written."""
    shapes = transformer_shapes(config).items()
    return TensorFile(
        Path(name), {name: TensorRecord(name, "F32", shape, 0, 0) for name, shape in shapes}, metadata or {}
    )


@pytest.mark.parametrize("preset", PUBLISHED)
@pytest.mark.parametrize(("side", "grid"), [(256, 16), (512, 32), (1024, 64)])
def test_published_sizes_need_nothing_but_their_tensors(preset: str, side: int, grid: int) -> None:
    expected = _published(preset, grid)
    assert read_transformer(_bare(expected, f"ar_dtok_{preset.lower()}_{side}px.pth")) == expected


def test_the_published_size_has_the_published_parameters_and_tensors() -> None:
    shapes = transformer_shapes(_published("LP", 16))
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 654_241_280
    assert len(shapes) == 216


@pytest.mark.parametrize("prefix", [729, 169, 81])
def test_a_model_may_be_sized_for_any_length_of_prefix(prefix: int) -> None:
    expected = _published("B", 16, prefix)
    assert read_transformer(_bare(expected, metadata={"cls_token_num": str(prefix)})) == expected


@pytest.mark.parametrize("prefix", [169, 81])
def test_fewer_codes_leave_grid_and_positions_as_they_are(prefix: int) -> None:
    config = read_transformer(_bare(_published("LP", 64)), prefix=prefix)
    assert (config.grid, config.prefix, config.position_rows) == (64, prefix, 4824)
    assert config.positions == prefix + 4096


def _written(folder: Path, tensors: Tensors, **arguments: object) -> TensorFile:
    return read_checkpoint(save_tar(folder / "model.pth", tensors, {"cls_token_num": 9, "n_head": 2, **arguments}))


@pytest.mark.parametrize("fixed", [True, False])
def test_fixed_and_learned_positions_are_read_alike_and_computed_with(fixed: bool, tmp_path: Path) -> None:
    tensors = ar_dtok_tensors(4)
    if fixed:
        tensors["abs_pe"] = fixed_positions(4 * 4 + 8, 32)
    save_file(tensors, tmp_path / "model", {"cls_token_num": "9", "n_head": "2"})
    file = read_tensor_file(tmp_path / "model")
    config, reference = read_transformer(file), ReferenceTransformer(read_transformer(file), file)
    tokens = np.random.default_rng(0).integers(64, size=(1, 16))
    features = np.random.default_rng(1).standard_normal((1, 9, TA_TOK.dim), np.float32)
    step = teacher_forced(config, reference.condition(features), tokens, raster_mask(config))
    expected = reference.run(step)
    with load_graph(transformer_graph(config, file, "model"), tmp_path / "model.onnx") as engine:
        found = engine.run_once(step)
    assert all(np.abs(found[name] - expected[name]).max() < 1e-4 for name in expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("abs_pe", 1, 25, 32), "25 rows, of which 9 are the condition's"),
        (put("abs_pe", 1, 30, 32), "fits no square grid"),
        (put("abs_pe", 1, 24, 31), r"abs_pe is \[1, 24, 31\], expected \[1, 24, 32\]"),
        (put("abs_pe", 24, 32), r"'abs_pe' tells a size"),
        (drop("clip_proj.bias"), "clip_proj.bias is missing"),
        (drop("clip_proj.weight"), "an AR-DTok that is not conditioned on TA-Tok features"),
        (put("clip_proj.weight", 31, 192), r"clip_proj.weight is \[31, 192\]"),
        (put("cls_embedding.embedding_table.weight", 5, 32), "embedding_table.weight is not part of the model"),
    ],
)
def test_missing_misshapen_and_surplus_tensors_are_refused(change: Change, message: str, tmp_path: Path) -> None:
    tensors = ar_dtok_tensors(4)
    change(tensors)
    with pytest.raises(CheckpointError, match=message):
        read_transformer(_written(tmp_path, tensors))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_seq_len": 64}, "fits no square grid"),
        ({"cls_token_num": "many"}, "'cls_token_num' is not a number"),
        ({"n_head": 3}, "3 attention heads do not fit"),
    ],
)
def test_arguments_that_contradict_the_tensors_are_refused(
    arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_transformer(_written(tmp_path, ar_dtok_tensors(4), **arguments))


def test_a_file_of_another_stage_than_its_name_says_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"(?s)another stage.*images of 256 pixels.*images of 1024 pixels"):
        read_transformer(_bare(_published("LP", 16), "ar_dtok_lp_1024px.pth"))


def test_more_codes_than_the_model_was_sized_for_are_refused() -> None:
    with pytest.raises(CheckpointError, match="at most 169"):
        read_transformer(_bare(_published("B", 16, 169), metadata={"cls_token_num": "169"}), prefix=729)
