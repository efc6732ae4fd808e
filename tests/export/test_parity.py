from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundles import tiny_bundle, tiny_checkpoints, tiny_options, tiny_sources
from mulo_engines.errors import CheckpointError
from mulo_export.bundle_writer import write_bundle
from mulo_export.checkpoints.tensor_file import read_tensor_file
from mulo_export.codebook import neighbour_table, normalised_codebook
from mulo_export.describe import GRAPHS, graph_file, weights_file
from mulo_export.graphs.feed import feed_graph
from mulo_export.graphs.sampler import sampler_graph
from mulo_export.graphs.transformer import transformer_graph
from mulo_export.parity.child import measure
from mulo_export.parity.metrics import differing_share, largest_difference, relative_error
from mulo_export.sources import Sources
from safetensors.numpy import load_file, save_file

Spoil = Callable[[Path, Sources], None]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parity")
    tiny_bundle(folder, eagle=True)
    return folder


def _failed(folder: Path, sources: Sources) -> set[str]:
    return {record.graph for record in measure(folder, sources, tiny_options()) if record.value > record.tolerance}


def test_a_sound_bundle_has_a_record_within_tolerance_for_every_graph(exported: Path) -> None:
    records = measure(exported / "bundle", tiny_sources(tiny_checkpoints(exported), eagle=True), tiny_options())
    assert {record.graph for record in records} == set(GRAPHS)
    assert all(record.value <= record.tolerance for record in records)


def test_the_measurement_repeats_itself(exported: Path) -> None:
    sources = tiny_sources(tiny_checkpoints(exported), eagle=True)
    first, second = (measure(exported / "bundle", sources, tiny_options()) for _ in range(2))
    assert first == second


def _other_rotation(folder: Path, sources: Sources) -> None:
    config = replace(sources.drafter.config, rope_base=9000.0)
    weights = read_tensor_file(folder / weights_file("drafter"))
    transformer_graph(config, weights, weights_file("drafter")).save(folder / graph_file("drafter"))


def _other_norm(folder: Path, sources: Sources) -> None:
    config = replace(sources.target.config, norm_eps=1e-3)
    weights = read_tensor_file(folder / weights_file("target"))
    transformer_graph(config, weights, weights_file("target"), hidden=True).save(folder / graph_file("target"))


def _change(tensor: str, role: str) -> Spoil:
    """Add one to the first value of a weight in the bundle; the checkpoint stays as it is."""

    def change(folder: Path, sources: Sources) -> None:
        del sources
        path = folder / weights_file(role)
        record = read_tensor_file(path).tensors[tensor]
        values = np.memmap(path, np.float32, "r+", record.offset, record.shape)
        values.reshape(-1)[0] += 1
        values.flush()

    return change


def _shuffled_neighbours(folder: Path, sources: Sources) -> None:
    table = neighbour_table(normalised_codebook(sources.vq.file), 16)
    table[:, 1:] = np.roll(table[:, 1:], 1, axis=0)
    sampler_graph(table, full=False).save(folder / graph_file("sampler"))


def _half_a_batch(folder: Path, sources: Sources) -> None:
    del sources
    feed_graph(guidance=False).save(folder / graph_file("feed"))


@pytest.mark.parametrize(
    ("spoil", "graphs"),
    [
        (_other_rotation, {"drafter"}),
        (_other_norm, {"target"}),
        (_change("layers.1.feed_forward.w2.weight", "target"), {"target"}),
        (_change("cls_embedding.cap_proj.fc2.weight", "drafter"), {"drafter.condition"}),
        (_change("decoder.conv_out.bias", "vq"), {"decoder", "upsampler", "downsampler"}),
        (_change("encoder.conv_out.bias", "vq"), {"upsampler", "downsampler"}),
        (_shuffled_neighbours, {"sampler"}),
        (_half_a_batch, {"feed"}),
    ],
)
def test_a_spoilt_graph_or_weight_is_found_and_named(
    exported: Path, tmp_path: Path, spoil: Spoil, graphs: set[str]
) -> None:
    sources = tiny_sources(tiny_checkpoints(exported), eagle=True)
    shutil.copytree(exported / "bundle", tmp_path / "bundle")
    spoil(tmp_path / "bundle", sources)
    assert _failed(tmp_path / "bundle", sources) == graphs


@pytest.mark.parametrize("metric", [relative_error, differing_share, largest_difference])
@pytest.mark.parametrize("found", [np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.array([1.0])])
def test_what_is_not_finite_or_has_another_shape_is_within_no_tolerance(
    metric: Callable[..., object], found: np.ndarray
) -> None:
    record = metric("sampler", "probs", [(found, np.array([1.0, 2.0]))], 0.4)
    assert record.value > record.tolerance  # type: ignore[attr-defined]


def test_errors_are_relative_to_what_was_expected_over_all_pairs() -> None:
    pairs = [(np.array([3.0, 4.0]), np.array([3.0, 5.0])), (np.array([[1.0]]), np.array([[1.0]]))]
    assert relative_error("target", "logits", pairs, 1).value == pytest.approx(1 / np.sqrt(35))
    assert differing_share("target", "logits", pairs, 1).value == pytest.approx(1 / 3)
    assert largest_difference("target", "logits", pairs, 1).value == 1


def test_a_checkpoint_that_is_not_finite_is_blamed_by_name_though_it_is_copied_unread(tmp_path: Path) -> None:
    checkpoints = tiny_checkpoints(tmp_path)
    tensors, metadata = load_file(checkpoints.target), dict(read_tensor_file(checkpoints.target).metadata)
    tensors["layers.1.attention.wo.weight"][3, 5] = np.nan
    save_file(tensors, checkpoints.target, metadata)
    with pytest.raises(CheckpointError, match=r"target.safetensors: layers.1.attention.wo.weight"):
        write_bundle(tiny_sources(checkpoints), tiny_options(skip_parity=False), tmp_path / "bundle", lambda _: None)
    assert not (tmp_path / "bundle").exists()
