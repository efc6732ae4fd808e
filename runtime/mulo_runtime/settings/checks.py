"""What every settings class checks its values with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from mulo_engines.errors import RequestError

__all__ = ["from_mapping", "one_of", "require"]

_T = TypeVar("_T")


def require(name: str, value: object, valid: bool, expected: str) -> None:
    """Check a setting's value.

    Raises:
        RequestError: it is not `valid`.
    """
    if not valid:
        raise RequestError(f"setting {name!r} is out of range", found=value, expected=expected)


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Check that a setting's value is one of `choices`.

    Raises:
        RequestError: it is not.
    """
    require(name, value, value in choices, " or ".join(choices))


def from_mapping(cls: type[_T], values: Mapping[str, Any]) -> _T:
    """Build settings from a manifest's or a user's mapping.

    Raises:
        RequestError: a key is unknown or a value is out of range.
    """
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise RequestError(
            f"unknown settings for {cls.__name__}: {', '.join(unknown)}", expected=", ".join(sorted(known))
        )
    return cls(**values)
