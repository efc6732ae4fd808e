"""One command makes a bundle of Tar's four files, and every method draws an image from TA-Tok codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import tiny_checkpoints, tiny_options
from click.testing import CliRunner, Result
from mulo_engines.bundle import Bundle
from mulo_engines.errors import ParityError, RequestError
from mulo_export import cli, fold_ta_tok
from mulo_export.bundle_writer import write_bundle
from mulo_export.precision import Precision
from mulo_runtime import AutoRegressive, ClassId, MuloSD, Pipeline, Request, TaTokCodes, ZipAR
from mulo_tools.cli import main
from numpy.typing import NDArray
from tar_checkpoints import CODES, PREFIX, TarCheckpoints, tar_checkpoints, tar_sources


def _ignore(count: int) -> None:
    del count


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tar")
    result = _export(tar_checkpoints(folder, ratio=4), folder / "bundle")
    assert result.exit_code == 0, result.output
    return folder / "bundle"


def _export(paths: TarCheckpoints, out: Path, *options: str) -> Result:
    files = [text for field in fields(paths) for text in (_option(field.name), str(getattr(paths, field.name)))]
    return CliRunner().invoke(cli.main, ["tar", *files, "--out", str(out), *options])


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _codes(seed: int) -> TaTokCodes:
    return TaTokCodes(np.random.default_rng(seed).integers(CODES, size=PREFIX))


def test_the_manifest_says_what_was_exported(bundle: Path) -> None:
    manifest = Bundle.open(bundle).manifest
    assert (manifest.family, manifest.ratio, manifest.rounding) == ("tar", 4, "truncate")
    assert (manifest.drafter.rows, manifest.target.rows) == (4, 16)
    assert (manifest.condition.kind, manifest.condition.length, manifest.condition.codes) == ("ta_tok", PREFIX, CODES)
    assert manifest.sampling == {"guidance_scale": 4.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    assert {record.role: record.file_name for record in manifest.provenance} == {
        "drafter": "low.pth",
        "target": "high.pth",
        "vq": "vq.pt",
        "ta_tok": "ta_tok.pth",
    }
    weights = {graph.name: graph.weights for graph in manifest.graphs}
    assert weights["target.condition"] == ("weights/target.safetensors", "weights/ta_tok.safetensors")


def test_every_graph_was_compared_with_its_reference(bundle: Path) -> None:
    manifest = Bundle.open(bundle).manifest
    assert {record.graph for record in manifest.parity} == {graph.name for graph in manifest.graphs}
    assert all(record.value <= record.tolerance for record in manifest.parity)


@pytest.mark.parametrize("method", [AutoRegressive(), ZipAR(window=2), MuloSD(), MuloSD(rows_per_round=0)])
def test_every_method_draws_from_codes(bundle: Path, method: Any) -> None:
    with Pipeline.open(bundle, threads=1, methods=[method]) as pipeline:
        first, again, other = (
            pipeline.generate(Request(_codes(seed), seed=7, method=method)).tokens for seed in (0, 0, 1)
        )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_mulo_sd_that_rejects_everything_is_plain_decoding(bundle: Path) -> None:
    methods = AutoRegressive(), MuloSD(tau=2.0, window=0)
    with Pipeline.open(bundle, threads=1, methods=methods) as pipeline:
        plain, strict = (pipeline.generate(Request(_codes(0), seed=3, method=method)) for method in methods)
    assert np.array_equal(plain.tokens, strict.tokens)


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        (ClassId(0), "TA-Tok codes"),
        (TaTokCodes(np.zeros(PREFIX - 1, np.int64)), r"int64 \(9,\)"),
        (TaTokCodes(np.zeros(PREFIX, np.int32)), "int32"),
        (TaTokCodes(np.full(PREFIX, CODES)), "from 0 to 49"),
        (TaTokCodes(np.full(PREFIX, -1)), "from -1"),
    ],
)
def test_codes_that_do_not_fit_are_refused(bundle: Path, condition: Any, word: str) -> None:
    with Pipeline.open(bundle, threads=1) as pipeline, pytest.raises(RequestError, match=word):
        pipeline.generate(Request(condition, seed=0))


def test_the_command_draws_from_a_file_of_codes_and_shows_what_the_bundle_reads(bundle: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "codes.npz", codes=_codes(0).codes.astype(np.uint16))
    arguments = ["generate", str(bundle), "--condition", str(tmp_path / "codes.npz"), "--out", str(tmp_path / "a.png")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a.png").is_file()
    shown = CliRunner().invoke(main, ["inspect", str(bundle)])
    assert "9 TA-Tok codes, 0 to 49" in shown.output


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.BF16, Precision.FP8, Precision.INT8])
def test_every_precision_passes_its_parity(precision: Precision, tmp_path: Path) -> None:
    options = tiny_options(precision=precision, skip_parity=False)
    write_bundle(tar_sources(tar_checkpoints(tmp_path)), options, tmp_path / "bundle", _ignore)


def test_fewer_codes_than_the_models_were_sized_for(tmp_path: Path) -> None:
    write_bundle(
        tar_sources(tar_checkpoints(tmp_path), prefix=4), tiny_options(skip_parity=False), tmp_path / "bundle", _ignore
    )
    with Pipeline.open(tmp_path / "bundle", threads=1) as pipeline:
        assert pipeline.bundle.manifest.condition.length == 4
        pipeline.generate(Request(TaTokCodes(np.arange(4)), seed=0))


def test_a_wrongly_folded_table_fails_the_parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = fold_ta_tok._folded_table

    def unprojected(*arguments: Any) -> NDArray[np.float32]:
        return right(*arguments) * np.float32(1.01)

    monkeypatch.setattr(fold_ta_tok, "_folded_table", unprojected)
    with pytest.raises(ParityError, match=r"drafter\.condition"):
        write_bundle(
            tar_sources(tar_checkpoints(tmp_path)), tiny_options(skip_parity=False), tmp_path / "bundle", _ignore
        )


def _exchange(paths: TarCheckpoints) -> None:
    paths.drafter.rename(paths.drafter.with_suffix(".x"))
    paths.target.rename(paths.drafter)
    paths.drafter.with_suffix(".x").rename(paths.target)


def _copy(source: str, destination: str) -> Callable[[TarCheckpoints], None]:
    def change(paths: TarCheckpoints) -> None:
        getattr(paths, destination).write_bytes(getattr(paths, source).read_bytes())

    return change


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_exchange, ["16 in the drafter and 4 in the target", "exchanged"]),
        (_copy("vq", "target"), ["not a transformer of LlamaGen or Tar", "a VQ tokenizer"]),
        (_copy("ta_tok", "drafter"), ["not a transformer of LlamaGen or Tar", "a TA-Tok"]),
        (_copy("target", "ta_tok"), ["not a TA-Tok", "an AR-DTok transformer of Tar"]),
        (_copy("ta_tok", "vq"), ["not a VQ tokenizer", "a TA-Tok"]),
        (_copy("drafter", "target"), ["4 in the drafter and 4 in the target"]),
    ],
)
def test_files_of_the_wrong_family_or_stage_are_called_what_they_are(
    spoil: Callable[[TarCheckpoints], None], words: list[str], tmp_path: Path
) -> None:
    paths = tar_checkpoints(tmp_path, ratio=4)
    spoil(paths)
    result = _export(paths, tmp_path / "bundle")
    assert result.exit_code == 3, result.output
    for word in words:
        assert word in result.stderr


def test_each_family_has_its_own_command(tmp_path: Path) -> None:
    paths = tar_checkpoints(tmp_path)
    pair = ["--target", str(paths.target), "--drafter", str(paths.drafter), "--vq", str(paths.vq)]
    result = CliRunner().invoke(cli.main, ["llamagen", *pair, "--out", str(tmp_path / "bundle")])
    assert result.exit_code == 3
    assert "use `mulo-export tar`" in result.stderr
    (tmp_path / "other").mkdir()
    other = tiny_checkpoints(tmp_path / "other", text=False)
    mixed = TarCheckpoints(other.drafter, other.target, paths.ta_tok, other.vq)
    result = _export(mixed, tmp_path / "bundle")
    assert result.exit_code == 3
    assert "use `mulo-export llamagen`" in result.stderr
