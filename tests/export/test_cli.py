from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import Checkpoints, die, prompt_encoder, tiny_checkpoints, transformer_tensors, vq_tensors
from click.testing import CliRunner, Result
from mulo_engines.bundle import Bundle
from mulo_export import bundle_writer, cli, graph_writer
from mulo_export.checkpoints.tensor_file import TensorFile
from mulo_export.options import ExportOptions
from mulo_export.parity import gate
from mulo_export.sources import Sources
from safetensors.numpy import load_file, save_file

Change = Callable[[Checkpoints], None]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return tiny_checkpoints(tmp_path)


def _export(checkpoints: Checkpoints, *options: str) -> Result:
    return CliRunner().invoke(cli.main, [*_arguments(checkpoints), *options])


def _arguments(checkpoints: Checkpoints) -> list[str]:
    arguments = ["llamagen", "--target", str(checkpoints.target), "--drafter", str(checkpoints.drafter)]
    arguments += ["--vq", str(checkpoints.vq), "--out", str(_out(checkpoints))]
    if checkpoints.prompt is not None:
        arguments += ["--prompt-table", str(checkpoints.prompt)]
    return arguments


def _out(checkpoints: Checkpoints) -> Path:
    return checkpoints.target.parent / "bundle"


def _assert_refused(result: Result, checkpoints: Checkpoints, code: int, *words: str) -> None:
    assert result.exit_code == code, result.output
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.output
    assert not _out(checkpoints).exists()


def _rewrite(path: Path, tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    path.unlink()
    save_file(tensors, path, metadata)


def test_an_export_prints_the_bundle_and_shows_its_parity(checkpoints: Checkpoints) -> None:
    result = _export(checkpoints)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(_out(checkpoints))
    assert "relative error of logits" in result.stderr
    manifest = Bundle.open(_out(checkpoints)).manifest
    assert {record.graph for record in manifest.parity} == {graph.name for graph in manifest.graphs}
    assert not manifest.parity_skipped


def test_the_manifest_says_what_was_exported(checkpoints: Checkpoints) -> None:
    options = ["--skip-parity", "--temperature", "0.8", "--top-k", "5", "--tau", "0.2", "--pool-k", "4"]
    assert _export(checkpoints, *options).exit_code == 0
    manifest = Bundle.open(_out(checkpoints)).manifest
    assert (manifest.family, manifest.precision, manifest.ratio, manifest.vocabulary) == ("llamagen-t2i", "fp32", 2, 64)
    assert (manifest.drafter.rows, manifest.target.rows, manifest.pixels_per_token) == (4, 8, 4)
    assert manifest.sampling == {"guidance_scale": 7.5, "temperature": 0.8, "top_k": 5, "top_p": 1.0}
    assert manifest.mulo | {"tau": 0.2, "pool_k": 4, "rows_per_round": 1} == manifest.mulo
    assert manifest.condition.feature_size == prompt_encoder().width
    assert [record.file_name for record in manifest.provenance] == [
        "drafter.safetensors",
        "target.safetensors",
        "vq.safetensors",
    ]


def test_a_class_conditional_pair_is_exported(tmp_path: Path) -> None:
    checkpoints = tiny_checkpoints(tmp_path, ratio=4, text=False)
    assert _export(checkpoints).exit_code == 0
    manifest = Bundle.open(_out(checkpoints)).manifest
    assert (manifest.family, manifest.ratio, manifest.condition.classes) == ("llamagen-c2i", 4, 5)


def test_skipped_parity_is_loud_and_recorded(checkpoints: Checkpoints) -> None:
    result = _export(checkpoints, "--skip-parity")
    assert "PARITY WAS SKIPPED" in result.stderr
    assert json.loads((_out(checkpoints) / "bundle.json").read_text())["parity_skipped"] is True


def test_a_dry_run_shows_the_sizes_and_writes_nothing(checkpoints: Checkpoints) -> None:
    before = sorted(checkpoints.target.parent.iterdir())
    result = _export(checkpoints, "--dry-run")
    assert result.exit_code == 0, result.output
    for part in ("weights/target.safetensors", "target caches", "sampler", "total"):
        assert part in result.stderr
    assert sorted(checkpoints.target.parent.iterdir()) == before


def test_the_shipped_family_is_found_without_importing_its_package(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.main, ["reference", "--ratio", "4", "--out", str(tmp_path / "bundle"), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "ratio 4" in result.stderr


def test_a_wrong_graph_fails_the_parity_and_publishes_nothing(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_wrong(folder: Path, sources: Sources, weights: dict[str, TensorFile], options: ExportOptions) -> None:
        wrong = replace(sources.target, config=replace(sources.target.config, rope_base=9000.0))
        graph_writer.write_graphs(folder, replace(sources, target=wrong), weights, options)

    monkeypatch.setattr(bundle_writer, "write_graphs", write_wrong)
    result = _export(checkpoints)
    _assert_refused(result, checkpoints, 4, "target: relative error of logits", "at most 0.0001")
    assert "drafter" not in result.stderr


def test_a_parity_process_that_dies_publishes_nothing(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "measure", die)
    _assert_refused(_export(checkpoints), checkpoints, 4, "died", "--skip-parity")


def test_an_interrupted_export_publishes_nothing(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle_writer, "check_parity", interrupt)
    _assert_refused(_export(checkpoints), checkpoints, 130, "interrupted")


def test_a_full_disk_is_an_error_without_a_traceback(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_writer, "copy_weights", full)
    _assert_refused(_export(checkpoints), checkpoints, 1, "No space left")


def test_a_bundle_is_replaced_only_when_asked_to(checkpoints: Checkpoints) -> None:
    assert _export(checkpoints, "--skip-parity").exit_code == 0
    result = _export(checkpoints, "--skip-parity")
    assert result.exit_code == 3
    assert "--force" in result.stderr
    assert _export(checkpoints, "--skip-parity", "--force", "--tau", "0.7").exit_code == 0
    assert Bundle.open(_out(checkpoints)).manifest.mulo["tau"] == 0.7


_KILLED_AT_THE_GATE = """
import os, signal, sys
from mulo_export import bundle_writer, cli
bundle_writer.check_parity = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
cli.main(sys.argv[1:])
"""


def test_a_killed_export_leaves_the_old_bundle_whole_and_the_next_one_succeeds(checkpoints: Checkpoints) -> None:
    assert _export(checkpoints, "--skip-parity", "--tau", "0.1").exit_code == 0
    arguments = [*_arguments(checkpoints), "--force", "--tau", "0.2"]
    killed = subprocess.run([sys.executable, "-c", _KILLED_AT_THE_GATE, *arguments], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert Bundle.open(_out(checkpoints)).manifest.mulo["tau"] == 0.1
    assert _export(checkpoints, "--skip-parity", "--force", "--tau", "0.3").exit_code == 0
    assert Bundle.open(_out(checkpoints)).manifest.mulo["tau"] == 0.3


def test_the_installed_command_leaves_with_the_errors_exit_code(checkpoints: Checkpoints) -> None:
    checkpoints.vq.unlink()
    command = [Path(sys.executable).with_name("mulo-export"), *_arguments(checkpoints)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("backends", "form"),
    [
        ([], "int4"),
        (["onnxruntime"], "int4"),
        (["tensorrt"], "int4-tensorrt"),
        (["onnxruntime", "tensorrt-rtx"], "int4-tensorrt"),
    ],
)
def test_integers_are_in_the_form_that_all_backends_read(
    checkpoints: Checkpoints, backends: list[str], form: str
) -> None:
    options = [option for name in backends for option in ("--backend", name)]
    result = _export(checkpoints, "--precision", "int4", "--dry-run", *options)
    assert result.exit_code == 0, result.output
    assert f"{form}, ratio 2" in result.stderr


_WITHOUT_ONNX = "import sys; sys.modules['onnx'] = None; from mulo_export import cli; cli.main(sys.argv[1:])"


def test_a_missing_library_is_an_error_that_names_what_to_install(checkpoints: Checkpoints) -> None:
    command = [sys.executable, "-c", _WITHOUT_ONNX, *_arguments(checkpoints)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "exporting needs 'onnx'" in done.stderr
    assert "mulo[export,cpu]" in done.stderr


@pytest.mark.parametrize(
    ("option", "word"),
    [
        (["--precision", "fp6"], "fp32"),
        (["--temperature", "-1"], "temperature"),
        (["--top-p", "0"], "top-p"),
        (["--pool-k", "65"], "at most 64"),
        (["--tua", "1"], "--tau"),
    ],
)
def test_wrong_usage_has_exit_code_two(checkpoints: Checkpoints, option: list[str], word: str) -> None:
    _assert_refused(_export(checkpoints, *option), checkpoints, 2, word)


def _no_file(checkpoints: Checkpoints) -> None:
    checkpoints.target.unlink()


def _web_page(checkpoints: Checkpoints) -> None:
    checkpoints.target.write_text("<html>404</html>" * 100)


def _truncated(checkpoints: Checkpoints) -> None:
    checkpoints.drafter.write_bytes(checkpoints.drafter.read_bytes()[:-10])


def _other_model(checkpoints: Checkpoints) -> None:
    checkpoints.target.write_bytes(checkpoints.vq.read_bytes())


def _missing_tensor(checkpoints: Checkpoints) -> None:
    tensors = load_file(checkpoints.target)
    del tensors["layers.1.attention.wo.weight"]
    _rewrite(checkpoints.target, tensors, {"n_head": "2", "grid": "8"})


def _unknown_grid(checkpoints: Checkpoints) -> None:
    _rewrite(checkpoints.target, load_file(checkpoints.target), {"n_head": "2"})


def _ratio_three(checkpoints: Checkpoints) -> None:
    _rewrite(checkpoints.target, load_file(checkpoints.target), {"n_head": "2", "grid": "12"})


def _smaller_vq(checkpoints: Checkpoints) -> None:
    _rewrite(checkpoints.vq, vq_tensors(np.random.default_rng(2), vocabulary=32), {"groups": "4"})


def _smaller_vocabulary(checkpoints: Checkpoints) -> None:
    tensors = transformer_tensors(np.random.default_rng(0))
    tensors |= {name: tensors[name][:32].copy() for name in ("tok_embeddings.weight", "output.weight")}
    _rewrite(checkpoints.drafter, tensors, {"n_head": "2", "grid": "4"})


def _shorter_prefix(checkpoints: Checkpoints) -> None:
    tensors = transformer_tensors(np.random.default_rng(0))
    tensors["cls_embedding.uncond_embedding"] = tensors["cls_embedding.uncond_embedding"][:3].copy()
    _rewrite(checkpoints.drafter, tensors, {"n_head": "2", "grid": "4"})


def _class_conditional_drafter(checkpoints: Checkpoints) -> None:
    tensors = transformer_tensors(np.random.default_rng(0), text=False)
    _rewrite(checkpoints.drafter, tensors, {"n_head": "2", "grid": "4"})


def _other_word_tables(checkpoints: Checkpoints) -> None:
    assert checkpoints.prompt is not None
    encoder = prompt_encoder()
    encoder.length = 9
    encoder.save(checkpoints.prompt)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_no_file, ["target.safetensors", "no such file"]),
        (_web_page, ["not a checkpoint", "a web page"]),
        (_truncated, ["drafter.safetensors", "truncated"]),
        (_other_model, ["not a transformer of LlamaGen or Tar", "a VQ tokenizer"]),
        (_missing_tensor, ["layers.1.attention.wo.weight is missing"]),
        (_unknown_grid, ["grid", "--target-grid"]),
        (_ratio_three, ["grid is 4 in the drafter and 12 in the target"]),
        (_smaller_vq, ["vocabulary is 64 in the target and 32 in the VQ tokenizer"]),
        (_smaller_vocabulary, ["vocabulary is 32 in the drafter and 64 in the target"]),
        (_shorter_prefix, ["prefix is 3 in the drafter and 6 in the target"]),
        (_class_conditional_drafter, ["family is llamagen-c2i in the drafter"]),
        (_other_word_tables, ["pads prompts to 9 words, the models read 6"]),
    ],
)
def test_checkpoints_that_cannot_be_used_are_refused_with_the_reason(
    checkpoints: Checkpoints, spoil: Change, words: list[str]
) -> None:
    spoil(checkpoints)
    _assert_refused(_export(checkpoints), checkpoints, 3, *words)
