"""Open a checkpoint of any kind that people have, by what its first bytes are."""

from __future__ import annotations

from pathlib import Path

from mulo_engines.errors import CheckpointError

from mulo_export.checkpoints.split_projections import has_split_projections, joined_projections
from mulo_export.checkpoints.tensor_file import TensorFile, read_tensor_file
from mulo_export.checkpoints.torch_file import read_torch_file

__all__ = ["read_checkpoint"]

_ARCHIVE = b"PK\x03\x04"
_HEADER = slice(8, 9)
"""Where the header of a safetensors file begins, which is a JSON object."""
_OTHERS = {
    b"<": ("a web page or XML, which a failed download leaves", "download the file itself, not its page"),
    b"version https://git-lfs": ("a Git LFS pointer", "fetch the file that it stands for: git lfs pull"),
    b"\x80": ("a bare pickle, as torch.save wrote before 1.6", "save it again with a newer torch.save"),
}
"""Beginnings of files that are no checkpoints, what they are, and what to do."""


def read_checkpoint(path: Path, *, ema: bool = False) -> TensorFile:
    """Read what a safetensors file, or one of `torch.save`, says of its tensors.

    Args:
        path: the file; its name does not matter.
        ema: take the averaged weights of a training file.

    Raises:
        CheckpointError: there is no such file, or it is something else; see `read_torch_file` and `read_tensor_file`.
        EngineUnavailable: the file is one of `torch.save`, and torch is not installed.
    """
    start = _start(path)
    if start[_HEADER] != b"{":
        _refuse_others(path, start)
    if start.startswith(_ARCHIVE):
        file = read_torch_file(path, ema=ema)
    elif ema:
        raise CheckpointError(f"{path}: averaged weights are in training files of torch only", fix="leave out --vq-ema")
    else:
        file = read_tensor_file(path)
    return joined_projections(file) if has_split_projections(file) else file


def _start(path: Path) -> bytes:
    """The first bytes of a file that may be a checkpoint."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file", fix="give the path of a checkpoint")
    with path.open("rb") as file:
        start = file.read(64)
    if not start:
        raise CheckpointError(f"{path}: the file is empty", fix="download the file again")
    return start


def _refuse_others(path: Path, start: bytes) -> None:
    for beginning, (found, fix) in _OTHERS.items():
        if start.lstrip().startswith(beginning):
            raise CheckpointError(
                f"{path}: not a checkpoint", found=found, expected="a safetensors file or one of torch.save", fix=fix
            )
