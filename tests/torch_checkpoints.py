"""Checkpoints written by `torch.save` in the layouts that LlamaGen and Tar publish."""

from __future__ import annotations

import argparse
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from golden.golden_weights import golden_weight
from numpy.typing import NDArray

__all__ = ["LAYOUTS", "golden_tensors", "save_layout", "save_tar", "state_dict"]

Tensors = Mapping[str, NDArray[Any]]

LAYOUTS = ("model", "module", "state_dict", "bare", "sharded", "trainer", "compiled")
"""Where the published scripts put a state dict."""


class EasyDict(dict[str, Any]):
    """What the package `easydict` has under this name: a dictionary whose keys are attributes, too."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__()
        for name, value in content.items():
            setattr(self, name, EasyDict(value) if isinstance(value, Mapping) else value)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setitem__(name, value)


EasyDict.__module__, EasyDict.__qualname__ = "easydict", "EasyDict"


def golden_tensors(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, NDArray[Any]]:
    """Deterministic weights for `shapes`."""
    return {name: golden_weight(name, tuple(shape), seed) for name, shape in shapes.items()}


def state_dict(tensors: Tensors) -> OrderedDict[str, torch.Tensor]:
    """`tensors` as a module's state dict has them."""
    return OrderedDict((name, torch.from_numpy(array.copy())) for name, array in tensors.items())


def save_layout(path: Path, tensors: Tensors, layout: str, **beside: Any) -> Path:
    """Write `tensors` as a LlamaGen checkpoint.

    Args:
        path: the file.
        tensors: the model's.
        layout: one of `LAYOUTS`: under a key; as it is; as it is with every tensor of the class that FSDP leaves;
            as a trainer saves it, beside its optimizer, its steps and its arguments; with the prefixes of wrappers.
        **beside: what else the dictionary around the state dict holds.
    """
    state: Any = state_dict(tensors)
    if layout == "sharded":
        state = {name: value.as_subclass(_Sharded) for name, value in state.items()}
    if layout == "compiled":
        state = {f"module._orig_mod.{name}": value for name, value in state.items()}
    if layout == "trainer":
        beside = {"optimizer": {"state": {0: torch.ones(3)}}, "steps": 7, "args": argparse.Namespace(lr=1e-4), **beside}
    wrapped = {"trainer": "model", "compiled": "model"}.get(layout, layout)
    torch.save(state if wrapped in ("bare", "sharded") else {wrapped: state, **beside}, path)
    return path


def save_tar(path: Path, tensors: Tensors, arguments: Mapping[str, Any], name: str = "llama-abs-LP") -> Path:
    """Write `tensors` as Tar's files hold them: beside the model's name and an EasyDict of its arguments."""
    with _easydict_package():
        content = {"name": name, "args": EasyDict(arguments), "sd": state_dict(tensors)}
        torch.save({"model": content, "epoch": 3}, path)
    return path


class _Sharded(torch.Tensor):
    """A tensor that is pickled as FSDP's are: rebuilt from its type, by name."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = self.as_subclass(torch.Tensor)
        rebuild, arguments = plain.__reduce_ex__(protocol)[:2]
        return torch._tensor._rebuild_from_type_v2, (rebuild, torch.Tensor, arguments, {})


@contextmanager
def _easydict_package() -> Iterator[None]:
    """Let pickle find the class by the name that it records; reading a checkpoint must do without the package."""
    package = ModuleType("easydict")
    package.EasyDict = EasyDict  # type: ignore[attr-defined]
    sys.modules["easydict"] = package
    try:
        yield
    finally:
        del sys.modules["easydict"]
