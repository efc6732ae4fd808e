"""Files that `torch.save` wrote: what they hold and where in the file it lies. Only here does `export` import torch.

Such a file is a zip archive whose members are not compressed, so that every tensor can be read in place. torch itself
tells where: under its FakeTensorMode it loads tensors that have a type, a shape and a place in the file, and no values.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mulo_engines.errors import CheckpointError, EngineUnavailable

from mulo_export.checkpoints.container import unwrap
from mulo_export.checkpoints.tensor_file import TensorFile, TensorRecord

__all__ = ["read_torch_file"]

_TYPES = {
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.int64": "I64",
    "torch.int32": "I32",
    "torch.uint8": "U8",
    "torch.int8": "I8",
    "torch.bool": "BOOL",
}


class _Arguments:
    """Stands for a class that only holds arguments, none of whose code is run: what is unpickled is a dictionary."""

    def __new__(cls) -> OrderedDict[str, object]:  # type: ignore[misc]
        return OrderedDict()


_INERT = ("easydict.EasyDict", "argparse.Namespace")
"""The classes beside torch's own that a checkpoint may name: Tar's files keep their arguments in the first, and what
LlamaGen's trainer saves, such as the published vq_ds16_c2i_training.pt, in the second."""


def read_torch_file(path: Path, *, ema: bool = False) -> TensorFile:
    """Read what the file at `path`, a zip archive, says of its tensors; no code in it is run and no weight is read.

    Args:
        path: the file.
        ema: take the averaged weights of a training file.

    Raises:
        CheckpointError: the archive is truncated or not torch's, names a class that is not allowed, or has no weights.
        EngineUnavailable: torch is not installed.
    """
    _check_archive(path)
    state, arguments = unwrap(path, _load(path), ema=ema)
    if others := [f"{name} ({type(value).__name__})" for name, value in state.items() if not _is_tensor(value)]:
        raise CheckpointError(
            f"{path}: holds other things than tensors",
            found=", ".join(others[:5]),
            expected="a state dict, bare or under 'model', 'module' or 'state_dict'",
            fix="give the checkpoint of a model",
        )
    size = path.stat().st_size
    records = {name: _record(path, name, tensor, size) for name, tensor in state.items()}
    return TensorFile(path, records, _metadata(arguments), verbatim=False)


def _check_archive(path: Path) -> None:
    if path.suffix == ".safetensors":
        # torch goes by the name and would try to read one.
        raise _not_torch(path, "a file of torch.save under the name of a safetensors file", fix="rename it to .pt")
    if not zipfile.is_zipfile(path):
        raise CheckpointError(
            f"{path}: the file is truncated",
            found=f"{path.stat().st_size} bytes without the list of contents that ends an archive",
            fix="download the file again",
        )
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        orders = {archive.read(member) for member in members if member.filename.endswith("/byteorder")}
    if not any(member.filename.endswith("/data.pkl") for member in members):
        raise _not_torch(path, "an archive of " + ", ".join(member.filename for member in members[:3]))
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise _not_torch(path, "compressed members, so that another program packed the archive again")
    if orders - {b"little"}:
        raise _not_torch(path, "numbers whose first byte is the most significant")


def _load(path: Path) -> object:
    try:
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            f"{path}: reading a file of torch.save needs torch, which is not installed",
            fix="pip install 'mulo[torch]', or give the checkpoint as a safetensors file",
        ) from error
    with torch.serialization.safe_globals([(_Arguments, name) for name in _INERT]), FakeTensorMode():
        try:
            if unsafe := torch.serialization.get_unsafe_globals_in_checkpoint(path):
                raise _unsafe(path, ", ".join(unsafe))
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except pickle.UnpicklingError as error:
            raise _unsafe(path, str(error).splitlines()[-1]) from error
        except (RuntimeError, ValueError, LookupError, EOFError) as error:
            raise _not_torch(path, str(error).splitlines()[0]) from error


def _is_tensor(value: object) -> bool:
    return hasattr(value, "untyped_storage")


def _record(path: Path, name: str, tensor: Any, file_size: int) -> TensorRecord:
    dtype, shape, size = str(tensor.dtype), tuple(tensor.shape), tensor.numel() * tensor.element_size()
    offset = tensor.untyped_storage()._checkpoint_offset + tensor.storage_offset() * tensor.element_size()
    if not tensor.is_contiguous() or offset + size > file_size:
        raise CheckpointError(
            f"{path}: the values of tensor {name!r} are not in one piece inside the file",
            found=f"shape {list(shape)}, strides {list(tensor.stride())}, {size} bytes from {offset} of {file_size}",
            fix="use the original file, or save it again from contiguous tensors",
        )
    return TensorRecord(name, _TYPES.get(dtype, dtype), shape, offset, size)


def _metadata(arguments: Mapping[str, object]) -> dict[str, str]:
    """The arguments that are a number or a text."""
    return {name: str(value) for name, value in arguments.items() if isinstance(value, (int, float, str))}


def _unsafe(path: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: the file asks for Python code that is not loaded from a checkpoint",
        found=found,
        expected="tensors, plain values, and at most " + ", ".join(_INERT),
        fix="never load such a file from a source that you do not trust; save its state dict alone",
    )


def _not_torch(
    path: Path, found: str, fix: str = "give the original checkpoint; download it again if it is one"
) -> CheckpointError:
    return CheckpointError(
        f"{path}: cannot be read as a file of torch.save",
        found=found,
        expected="an archive of uncompressed little-endian members with a data.pkl",
        fix=fix,
    )
