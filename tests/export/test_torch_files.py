"""Files of torch.save: every published layout is read, in place, and nothing else is."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bundles import transformer_tensors
from mulo_engines.errors import CheckpointError
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
from mulo_export.checkpoints.tensor_file import TensorFile
from safetensors.numpy import save_file
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_checkpoints import LAYOUTS, save_layout, save_tar, state_dict

TENSORS = transformer_tensors(np.random.default_rng(0))


def _assert_same(file: TensorFile) -> None:
    assert file.tensors.keys() == TENSORS.keys()
    for name, expected in TENSORS.items():
        assert np.array_equal(file.array(name), expected), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_published_layout_gives_the_same_tensors(layout: str, tmp_path: Path) -> None:
    file = read_checkpoint(save_layout(tmp_path / "model.pt", TENSORS, layout))
    _assert_same(file)
    assert not file.verbatim


def test_tars_layout_gives_the_arguments_too(tmp_path: Path) -> None:
    arguments = {"dim": 32, "cls_token_num": 9, "lr": 1e-4, "use_fixed_pe": False, "nested": {"depth": 2}, "list": [1]}
    file = read_checkpoint(save_tar(tmp_path / "model.pth", TENSORS, arguments))
    _assert_same(file)
    told = {"dim": "32", "cls_token_num": "9", "lr": "0.0001", "use_fixed_pe": "False", "name": "llama-abs-LP"}
    assert file.metadata == told


def test_plain_arguments_and_none_are_read_likewise(tmp_path: Path) -> None:
    torch.save({"model": {"args": {"cls_token_num": 9}, "sd": state_dict(TENSORS)}}, tmp_path / "plain.pth")
    assert read_checkpoint(tmp_path / "plain.pth").metadata["cls_token_num"] == "9"
    torch.save({"model": {"args": None, "sd": state_dict(TENSORS)}}, tmp_path / "none.pth")
    _assert_same(read_checkpoint(tmp_path / "none.pth"))


def test_averaged_weights_are_taken_on_request_only(tmp_path: Path) -> None:
    averaged = {name: array + 1 for name, array in TENSORS.items()}
    path = save_layout(tmp_path / "training.pt", TENSORS, "trainer", ema=state_dict(averaged))
    _assert_same(read_checkpoint(path))
    found = read_checkpoint(path, ema=True)
    assert np.array_equal(found.array("norm.weight"), averaged["norm.weight"])
    with pytest.raises(CheckpointError, match=r"(?s)found:    model.*averaged weights under 'ema'"):
        read_checkpoint(save_layout(tmp_path / "plain.pt", TENSORS, "model"), ema=True)


def test_parameters_views_and_other_types_lie_where_they_lie(tmp_path: Path) -> None:
    whole = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    state = {
        "whole": torch.nn.Parameter(whole),
        "rows": whole[2:4],
        "half": whole.half(),
        "brain": whole.bfloat16(),
        "count": torch.tensor(7),
    }
    torch.save(state, tmp_path / "model.pt")
    file = read_checkpoint(tmp_path / "model.pt")
    for name in ("whole", "half", "brain"):
        assert np.array_equal(file.array(name), whole.numpy()), name
    assert np.array_equal(file.array("rows"), whole[2:4].numpy())
    assert {name: record.dtype for name, record in file.tensors.items()} == {
        "whole": "F32",
        "rows": "F32",
        "half": "F16",
        "brain": "BF16",
        "count": "I64",
    }


def test_tensors_that_were_saved_on_a_gpu_are_read_without_one(tmp_path: Path) -> None:
    with FakeTensorMode():
        state = {"weight": torch.empty(4, 3, device="cuda")}
    with torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save({"model": state}, tmp_path / "model.pt")
    file = read_checkpoint(tmp_path / "model.pt")
    assert np.array_equal(file.array("weight"), np.zeros((4, 3)))


class Hostile:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('executed')",)


class Custom:
    """A class of the user's own."""


def _hostile(path: Path) -> None:
    torch.save({"model": state_dict(TENSORS), "args": Hostile()}, path)


def _custom(path: Path) -> None:
    torch.save({"model": state_dict(TENSORS), "args": Custom()}, path)


def _truncated(path: Path) -> None:
    save_layout(path, TENSORS, "model")
    path.write_bytes(path.read_bytes()[:-100])


def _repacked(path: Path) -> None:
    save_layout(path.with_suffix(".original"), TENSORS, "model")
    _repack(path, lambda _, content: content, zipfile.ZIP_DEFLATED)


def _repack(path: Path, change: Callable[[str, bytes], bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Write `path` with the changed members of the archive beside it."""
    original = zipfile.ZipFile(path.with_suffix(".original"))
    with original as source, zipfile.ZipFile(path, "w", compression) as packed:
        for name in source.namelist():
            packed.writestr(name, change(name, source.read(name)))


def _other_archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, **TENSORS)


def _big_endian(path: Path) -> None:
    save_layout(path.with_suffix(".original"), TENSORS, "model")
    _repack(path, lambda name, content: b"big" if name.endswith("byteorder") else content)


def _legacy(path: Path) -> None:
    torch.save(state_dict(TENSORS), path, _use_new_zipfile_serialization=False)


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(TENSORS))


def _short_storage(path: Path) -> None:
    """A tensor that claims more bytes than the file has."""
    save_layout(path.with_suffix(".original"), {"weight": np.zeros((4, 4), np.float32)}, "bare")
    _repack(path, lambda _, content: content.replace(b"K\x04K\x04", b"K\xffK\xff"))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, ["no such file"]),
        (lambda path: path.write_bytes(b""), ["the file is empty"]),
        (lambda path: path.write_bytes(b"\n<!DOCTYPE html><html>"), ["a web page", "download the file itself"]),
        (lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1"), ["Git LFS", "git lfs pull"]),
        (lambda path: path.write_bytes(b"no checkpoint at all"), ["not a safetensors file"]),
        (_truncated, ["the file is truncated", "download the file again"]),
        (_hostile, ["Python code", "builtins.exec"]),
        (_custom, ["Python code", "Custom"]),
        (_repacked, ["cannot be read as a file of torch.save", "compressed members"]),
        (_other_archive, ["cannot be read as a file of torch.save", "tok_embeddings.weight.npy"]),
        (_big_endian, ["most significant"]),
        (_legacy, ["a bare pickle", "newer torch.save"]),
        (_pickle, ["a bare pickle"]),
        (_short_storage, ["'weight' are not in one piece inside the file"]),
        (lambda path: torch.save(torch.ones(2), path), ["no weights", "Tensor", "a dictionary of tensors"]),
        (lambda path: torch.save({"model": {"a": 1.5}}, path), ["other things than tensors", "a (float)"]),
        (lambda path: torch.save({"steps": 3, "lr": 1.0}, path), ["other things than tensors", "steps (int)"]),
        (lambda path: torch.save({"a": torch.ones(2, 3).T}, path), ["'a' are not in one piece", "strides"]),
        (
            lambda path: torch.save({"a": torch.ones(1), "module.a": torch.ones(1)}, path),
            ["two tensors are called 'a'", "module.a"],
        ),
    ],
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused_by_what_it_is(
    write: Callable[[Path], Any], words: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "model.pt"
    write(path)
    with pytest.raises(CheckpointError) as error:
        read_checkpoint(path)
    for word in [str(path), *words]:
        assert word in str(error.value)


def test_a_file_under_the_name_of_the_other_kind_is_called_so(tmp_path: Path) -> None:
    save_layout(tmp_path / "model.safetensors", TENSORS, "model")
    with pytest.raises(CheckpointError, match=r"rename it to \.pt"):
        read_checkpoint(tmp_path / "model.safetensors")


def test_averaged_weights_of_a_safetensors_file_do_not_exist(tmp_path: Path) -> None:
    save_file(dict(TENSORS), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="leave out --vq-ema"):
        read_checkpoint(tmp_path / "model.safetensors", ema=True)


_WITHOUT_TORCH = """
import json, sys
from pathlib import Path
sys.modules["torch"] = None
from mulo_engines.errors import EngineUnavailable
from mulo_export.checkpoints.checkpoint_file import read_checkpoint
read_checkpoint(Path(sys.argv[1]))
try:
    read_checkpoint(Path(sys.argv[2]))
except EngineUnavailable as error:
    print(json.dumps(str(error)))
"""


def test_torch_is_needed_for_its_own_files_only(tmp_path: Path) -> None:
    save_file(dict(TENSORS), tmp_path / "model.safetensors")
    save_layout(tmp_path / "model.pt", TENSORS, "model")
    command = [sys.executable, "-c", _WITHOUT_TORCH, str(tmp_path / "model.safetensors"), str(tmp_path / "model.pt")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "pip install 'mulo[torch]'" in json.loads(done.stdout)
