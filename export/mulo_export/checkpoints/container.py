"""How checkpoints wrap their tensors: trainers put a state dict beside other things, and wrappers lengthen its keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mulo_engines.errors import CheckpointError

__all__ = ["unwrap"]

_KEYS = ("model", "module", "state_dict")
_PREFIXES = ("module.", "_orig_mod.")
"""What distributed training and compilation put before every key."""


def unwrap(path: Path, content: object, *, ema: bool) -> tuple[dict[str, object], dict[str, object]]:
    """The state dict inside `content`, and the model's arguments where Tar's container brings them.

    Tar's files hold {"model": {"name", "args", "sd"}}; LlamaGen's hold the state dict under "model", "module" or
    "state_dict", or are one; its training files hold averaged weights under "ema", too.

    Args:
        path: where `content` comes from.
        content: what the file holds.
        ema: take the averaged weights.

    Raises:
        CheckpointError: there is no state dict, no averaged weights, or two keys that differ by a wrapper's prefix.
    """
    if not isinstance(content, Mapping):
        raise _no_weights(path, f"a {type(content).__name__}", "a dictionary of tensors")
    model = content.get("model")
    if not ema and isinstance(model, Mapping) and isinstance(model.get("sd"), Mapping):
        arguments = model.get("args")
        named = dict(arguments) if isinstance(arguments, Mapping) else {}
        return _plain_keys(path, model["sd"]), {**named, "name": model.get("name")}
    for key in ("ema",) if ema else _KEYS:
        if isinstance(content.get(key), Mapping):
            return _plain_keys(path, content[key]), {}
    if ema:
        raise _no_weights(path, ", ".join(map(str, content)), "averaged weights under 'ema'")
    return _plain_keys(path, content), {}


def _plain_keys(path: Path, state: Mapping[object, object]) -> dict[str, object]:
    """`state` without the prefixes of wrappers."""
    plain: dict[str, object] = {}
    for key, value in state.items():
        name = str(key)
        while name.startswith(_PREFIXES):
            name = name.partition(".")[2]
        if name in plain:
            raise CheckpointError(f"{path}: two tensors are called {name!r}", found=key, fix="use the original file")
        plain[name] = value
    return plain


def _no_weights(path: Path, found: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: no weights are where they are expected",
        found=found,
        expected=expected,
        fix="give the checkpoint of a model; averaged weights are in training files only",
    )
