"""The published VQ-8 tokenizer: what is read from its keys, and that its graphs compute what the reference does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from mulo_engines.onnxruntime.engine import OnnxRuntimeEngine
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.checkpoints.vq import read_vq, vq_shapes
from mulo_export.graphs.decoder import decoder_graph
from mulo_export.reference.vq import ReferenceVq
from mulo_tools.synthetic_vq import VQ8, write_random_tokenizer
from safetensors.numpy import load_file
from torch_checkpoints import save_layout

CODEBOOK_USED = {"quantize.codebook_used": np.zeros(65536, np.float32)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorFile]:
    """`vq_ds8_c2i.pt` as it is published, whose 281 MB are not left behind."""
    folder = tmp_path_factory.mktemp("vq8")
    write_random_tokenizer(folder / "vq8.safetensors", VQ8)
    path = save_layout(folder / "vq_ds8_c2i.pt", load_file(folder / "vq8.safetensors") | CODEBOOK_USED, "model")
    (folder / "vq8.safetensors").unlink()
    yield read_checkpoint(path)
    path.unlink()


def test_the_structure_of_vq8_is_read_from_its_300_keys(file: TensorFile) -> None:
    assert len(file.tensors) == 300
    assert sum(int(np.prod(record.shape)) for record in file.tensors.values()) == 70_175_371
    config = read_vq(file)
    assert (config.vocabulary, config.code_size, config.latent_channels) == (16384, 8, 256)
    assert config.pixels_per_token == 8
    assert Counter(block.kind for block in config.encoder) == {"residual": 10, "attention": 3, "downsample": 3}
    assert Counter(block.kind for block in config.decoder) == {"residual": 14, "attention": 4, "upsample": 3}
    assert config.encoder == VQ8.encoder
    assert config.decoder == VQ8.decoder


def test_the_graph_decodes_as_the_reference_does(file: TensorFile) -> None:
    config = read_vq(file)
    own = file.only(vq_shapes(config))
    tokens = np.random.default_rng(0).integers(config.vocabulary, size=(1, 2, 3))
    path = file.path.with_name("decoder.onnx")
    decoder_graph(config, own, file.path.name, "half_up").save(path)
    with OnnxRuntimeEngine.load(path, name="decoder", spinning=False) as engine:
        image = engine.run_once({"token_ids": tokens})["image"]
    expected = ReferenceVq(config, own).pixels(tokens, "half_up")
    assert image.shape == (1, 16, 24, 3)
    assert np.abs(image.astype(int) - expected.astype(int)).max() <= 1
