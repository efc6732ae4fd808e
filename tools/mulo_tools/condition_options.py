"""What an image shows, as a user gives it: a prompt, a class id, or a file of text features or TA-Tok codes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import click
import numpy as np
from mulo_engines.errors import RequestError
from mulo_engines.manifest import ConditionRecord
from mulo_runtime import ClassId, Condition, Prompt, TaTokCodes, TextFeatures
from mulo_runtime.conditions import example_condition
from numpy.typing import NDArray

__all__ = ["chosen_condition", "condition_options", "condition_or_example", "read_condition"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_UNREADABLE = (BadZipFile, EOFError, KeyError, NotImplementedError, OSError, ValueError, zlib.error)


def condition_options(command: _Command) -> _Command:
    """Add `--prompt`, `--class-id` and `--condition`."""
    file = click.Path(path_type=Path)
    features = click.option("--condition", type=file, metavar="FILE.npz", help="Text features, or TA-Tok codes.")
    class_id = click.option("--class-id", type=int, help="Class, for a class-conditional bundle.")
    prompt = click.option("--prompt", help="Prompt, for a bundle with a prompt encoder.")
    return prompt(class_id(features(command)))


def chosen_condition(prompt: str | None, class_id: int | None, condition: Path | None) -> Condition:
    """The one condition that is given.

    Raises:
        click.UsageError: none or several are given.
        RequestError: the file is refused.
    """
    if [prompt, class_id, condition].count(None) != 2:
        raise click.UsageError("give one of --prompt, --class-id and --condition")
    if prompt is not None:
        return Prompt(prompt)
    if class_id is not None:
        return ClassId(class_id)
    assert condition is not None
    return read_condition(condition)


def condition_or_example(
    record: ConditionRecord, prompt: str | None, class_id: int | None, condition: Path | None
) -> Condition:
    """The one condition that is given, or where none is, an empty one that any bundle with this record takes.

    Raises:
        click.UsageError: several are given.
        RequestError: the file is refused.
    """
    if prompt is None and class_id is None and condition is None:
        return example_condition(record)
    return chosen_condition(prompt, class_id, condition)


def read_condition(path: Path) -> TextFeatures | TaTokCodes:
    """Read an npz file with text features or TA-Tok codes.

    Features are `features` [P, E], of any float type, and `mask` [P], of booleans or of zeros and ones; codes are
    `codes` [P], of any integer type.

    The bundle decides later whether the shapes fit. Nothing in the file is executed: pickled objects are refused.

    Raises:
        RequestError: the file is missing, unreadable, or its arrays are not as described.
    """
    try:
        # A file handle: given a path, numpy leaves the file open where it is no archive.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise _refused(path, "a single array")
            if "codes" in archive:
                return _codes(path, np.asarray(archive["codes"]))
            features, mask = (np.asarray(archive[name]) for name in ("features", "mask"))
    except _UNREADABLE as error:
        raise _refused(path, error) from error
    if not np.issubdtype(features.dtype, np.floating):
        raise _refused(path, f"'features' of type {features.dtype}")
    return TextFeatures(features.astype(np.float32), _booleans(path, mask))


def _codes(path: Path, codes: NDArray[Any]) -> TaTokCodes:
    if codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise _refused(path, f"'codes' of type {codes.dtype} and shape {codes.shape}")
    return TaTokCodes(codes.astype(np.int64))


def _booleans(path: Path, mask: NDArray[Any]) -> NDArray[np.bool_]:
    if mask.dtype.kind not in "biu" or not np.isin(mask, (0, 1)).all():
        raise _refused(path, f"'mask' of type {mask.dtype} with other values than 0 and 1")
    return mask.astype(np.bool_)


def _refused(path: Path, found: object) -> RequestError:
    return RequestError(
        f"{path}: the condition is refused",
        found=found,
        expected="an npz file with 'features' [P, E] of floats and 'mask' [P] of booleans, or 'codes' [P] of integers",
        fix="write it with numpy.savez(path, features=..., mask=...) or numpy.savez(path, codes=...)",
    )
