"""The published VQ-16 tokenizer's own outputs are reproduced, and what is easily got wrong is seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from golden_tokenizer import DECODE_TOLERANCE, GoldenTokenizer, open_golden_tokenizer, swapped
from mulo_engines.engine import Engine
from mulo_export.graphs import vq
from mulo_export.reference.vq import ReferenceVq


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenTokenizer]:
    """The 72 M parameters of VQ-16, whose 288 MB are not left behind."""
    opened = open_golden_tokenizer(tmp_path_factory.mktemp("vq16"))
    yield opened
    opened.file.path.unlink()


@pytest.fixture(scope="module")
def decoder(model: GoldenTokenizer) -> Iterator[Engine]:
    """The graph that makes an image of tokens."""
    with model.decode_graph() as engine:
        yield engine


def test_the_structure_of_vq16_is_read_from_its_keys(model: GoldenTokenizer) -> None:
    assert len(model.file.tensors) == 344
    assert sum(int(np.prod(record.shape)) for record in model.file.tensors.values()) == 71_948_939
    assert (model.config.vocabulary, model.config.code_size, model.config.latent_channels) == (16384, 8, 256)
    assert model.config.pixels_per_token == 16
    assert Counter(block.kind for block in model.config.encoder) == {"residual": 12, "attention": 3, "downsample": 4}
    assert Counter(block.kind for block in model.config.decoder) == {"residual": 17, "attention": 4, "upsample": 4}


def test_the_graph_reproduces_the_golden_image(model: GoldenTokenizer, decoder: Engine) -> None:
    image = decoder.run_once({"token_ids": model.stored["codes"]})["image"]
    assert model.decode_error(image) < DECODE_TOLERANCE


def test_the_graph_reproduces_the_golden_latent_and_every_token(model: GoldenTokenizer) -> None:
    with model.encode_graph() as engine:
        encoded = engine.run_once({"image": model.stored["image"]})
    assert np.abs(encoded["latent"] - model.stored["latent"]).max() < 1e-4
    assert np.array_equal(encoded["token_ids"], model.stored["indices"])


def test_the_reference_reproduces_the_golden_image_latent_and_tokens(model: GoldenTokenizer) -> None:
    reference = ReferenceVq(model.config, model.file)
    encoded = reference.encode(model.stored["image"])
    assert model.decode_error(reference.decode(model.stored["codes"])) < DECODE_TOLERANCE
    assert np.abs(encoded.latent - model.stored["latent"]).max() < 1e-4
    assert np.array_equal(encoded.token_ids, model.stored["indices"])


def test_a_codebook_that_is_looked_up_as_it_is_stored_is_seen(
    model: GoldenTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vq, "normalised_codebook", lambda file: np.asarray(file.array("quantize.embedding.weight")))
    with model.decode_graph() as engine:
        image = engine.run_once({"token_ids": model.stored["codes"]})["image"]
    assert model.decode_error(image) > 100 * DECODE_TOLERANCE


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("decoder.mid.1.q.weight", "decoder.mid.1.k.weight"),
        ("decoder.mid.1.v.weight", "decoder.mid.1.proj_out.weight"),
        ("decoder.mid.0.conv1.weight", "decoder.mid.2.conv1.weight"),
    ],
)
def test_two_tensors_taken_for_each_other_are_seen(model: GoldenTokenizer, first: str, second: str) -> None:
    reference = ReferenceVq(model.config, swapped(model, first, second).file)
    assert model.decode_error(reference.decode(model.stored["codes"])) > 10 * DECODE_TOLERANCE


def test_padding_of_a_downsampling_on_the_left_and_above_is_seen(
    model: GoldenTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vq, "_RIGHT_AND_BELOW", (1, 1, 0, 0))
    with model.encode_graph() as engine:
        encoded = engine.run_once({"image": model.stored["image"]})
    assert not np.array_equal(encoded["token_ids"], model.stored["indices"])


def test_a_transposed_grid_is_seen(model: GoldenTokenizer, decoder: Engine) -> None:
    transposed = np.ascontiguousarray(model.stored["codes"].swapaxes(1, 2))
    image = decoder.run_once({"token_ids": transposed})["image"]
    assert model.decode_error(image) > 100 * DECODE_TOLERANCE


def test_attention_and_norms_make_a_strip_depend_on_the_whole_grid(model: GoldenTokenizer, decoder: Engine) -> None:
    strip = decoder.run_once({"token_ids": model.stored["codes"][:, :2]})["image"]
    assert np.abs(strip - model.stored["decoded"][:, :, :32]).max() > 100 * DECODE_TOLERANCE
