from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bundles import VOCABULARY, vq_tensors
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.vq import read_vq, vq_shapes
from numpy.typing import NDArray
from safetensors.numpy import save_file

Tensors = dict[str, NDArray[np.float32]]
WriteFile = Callable[..., TensorFile]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Write the tensors of a tokenizer, changed by `change`, with `metadata`, and read the file's header."""

    def make(change: Callable[[Tensors], object] = lambda _: None, **metadata: str) -> TensorFile:
        tensors = vq_tensors(np.random.default_rng(0))
        change(tensors)
        save_file(tensors, tmp_path / "vq.safetensors", {"groups": "4", **metadata})
        return read_tensor_file(tmp_path / "vq.safetensors")

    return make


def test_structure_sizes_and_constants_are_read(write: WriteFile) -> None:
    file = write(norm_eps="1e-5")
    config = read_vq(file)
    assert (config.vocabulary, config.pixels_per_token) == (VOCABULARY, 4)
    assert (config.groups, config.norm_eps) == (4, 1e-5)
    assert vq_shapes(config) == {name: record.shape for name, record in file.tensors.items()}


def test_the_encoder_ends_and_the_decoder_begins_in_the_middle(write: WriteFile) -> None:
    config = read_vq(write())
    assert config.encoder[-1].stem == "encoder.mid.0"
    assert config.decoder[0].stem == "decoder.mid.0"


def test_attention_follows_the_residual_block_of_its_number(write: WriteFile) -> None:
    def attend(tensors: Tensors) -> None:
        stem = "decoder.conv_blocks.1.attn.0"
        tensors |= {f"{stem}.norm.weight": np.ones(8, np.float32), f"{stem}.norm.bias": np.zeros(8, np.float32)}
        for name in ("q", "k", "v", "proj_out"):
            tensors[f"{stem}.{name}.weight"] = np.zeros((8, 8, 1, 1), np.float32)
            tensors[f"{stem}.{name}.bias"] = np.zeros(8, np.float32)

    stems = [block.stem for block in read_vq(write(attend)).decoder]
    place = stems.index("decoder.conv_blocks.1.attn.0")
    assert stems[place - 1 : place + 2] == [
        "decoder.conv_blocks.1.res.0",
        "decoder.conv_blocks.1.attn.0",
        "decoder.conv_blocks.1.upsample",
    ]


def test_a_training_statistic_is_ignored(write: WriteFile) -> None:
    read_vq(write(lambda tensors: tensors.update({"quantize.codebook_used": np.zeros(7, np.float32)})))


def test_missing_surplus_and_misshapen_tensors_are_all_listed(write: WriteFile) -> None:
    def damage(tensors: Tensors) -> None:
        del tensors["encoder.mid.0.norm2.bias"]
        tensors["decoder.norm_out.weight"] = np.ones(9, np.float32)
        tensors["decoder.conv_outt.weight"] = np.ones(1, np.float32)
        tensors["quant_conv.bias"] = np.ones(4, np.int64)  # type: ignore[assignment]

    with pytest.raises(CheckpointError) as caught:
        read_vq(write(damage))
    for fault in (
        "encoder.mid.0.norm2.bias is missing",
        "decoder.norm_out.weight is [9], expected [8]",
        "decoder.conv_outt.weight is not part of the model",
        "quant_conv.bias is I64",
    ):
        assert fault in str(caught.value)


def test_a_gap_between_numbered_blocks_is_a_missing_block(write: WriteFile) -> None:
    def move(tensors: Tensors) -> None:
        for name in [name for name in tensors if name.startswith("decoder.mid.0.")]:
            tensors[name.replace("mid.0", "mid.1")] = tensors.pop(name)

    with pytest.raises(CheckpointError, match=r"decoder\.mid\.0\.conv1\.weight is missing"):
        read_vq(write(move))


def test_encoder_and_decoder_must_change_the_scale_alike(write: WriteFile) -> None:
    def lame(tensors: Tensors) -> None:
        for name in ("weight", "bias"):
            del tensors[f"decoder.conv_blocks.1.upsample.conv.{name}"]

    with pytest.raises(CheckpointError, match="halves the sides 2 times and the decoder doubles them 1 times"):
        read_vq(write(lame))


def test_groups_that_do_not_divide_the_channels_are_refused(write: WriteFile) -> None:
    with pytest.raises(CheckpointError, match="8 channels cannot be normalised in 3 groups"):
        read_vq(write(groups="3"))


@pytest.mark.parametrize(
    ("key", "text"), [("groups", "four"), ("norm_eps", "-1"), ("norm_eps", "nan"), ("groups", "2.5")]
)
def test_metadata_that_is_no_proper_number_is_refused_by_name(write: WriteFile, key: str, text: str) -> None:
    with pytest.raises(CheckpointError, match=key):
        read_vq(write(**{key: text}))


def test_another_model_is_refused(tmp_path: Path) -> None:
    save_file({"tok_embeddings.weight": np.zeros((4, 4), np.float32)}, tmp_path / "gpt.safetensors")
    with pytest.raises(CheckpointError, match="not a VQ tokenizer"):
        read_vq(read_tensor_file(tmp_path / "gpt.safetensors"))


def test_a_codebook_that_is_not_a_matrix_is_refused(write: WriteFile) -> None:
    with pytest.raises(CheckpointError, match="tells a size of the model"):
        read_vq(write(lambda tensors: tensors.update({"quantize.embedding.weight": np.zeros(8, np.float32)})))
