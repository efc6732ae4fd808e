"""The methods that a bench compares unless told otherwise, and their names in its table."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mulo_engines.manifest import Manifest
from mulo_runtime import AutoRegressive, Method, ZipAR, method_name, method_settings
from mulo_runtime.defaults import default_method

from mulo_tools.method_options import parse_method

__all__ = ["chosen_methods", "default_methods", "method_title", "spelled"]

_ZIPAR_WINDOWS = (2, 4, 8, 16)
_TAUS = (0.1, 0.03, 0.01, 0.003)
_TOLD = frozenset({"tau", "window"})
"""Switches that a title tells even where they are at their defaults."""


def chosen_methods(manifest: Manifest, specs: tuple[str, ...]) -> list[Method]:
    """Plain decoding, with which everything is compared, and the methods of `specs`; the default set if there are none.

    Raises:
        RequestError: a specification is not understood.
        BundleError: the bundle's defaults are refused.
    """
    if not specs:
        return default_methods(manifest)
    return list(dict.fromkeys([AutoRegressive(), *(parse_method(manifest, spec) for spec in specs)]))


def default_methods(manifest: Manifest) -> list[Method]:
    """Plain decoding, ZipAR at several windows, the bundle's MuLo-SD, and it with other tau, draft and guidance."""
    own = default_method(manifest)
    zipar = [ZipAR(window) for window in _ZIPAR_WINDOWS if window < manifest.target.cols]
    by_tau = [own.with_changes(tau=tau) for tau in _TAUS]
    whole = own.with_changes(draft="image", rows_per_round=0)
    by_rows = own.with_changes(draft="rows", rows_per_round=own.rows_per_round or 1)
    other_guidance = own.with_changes(guided="drafter" if own.guided == "both" else "both")
    return list(dict.fromkeys([AutoRegressive(), *zipar, own, *by_tau, whole, by_rows, other_guidance]))


def method_title(method: Method) -> str:
    """The method's name and the switches that differ from their defaults; `parse_method` understands it."""
    defaults: dict[str, Any] = {field.name: field.default for field in fields(method)}
    settings = method_settings(method).items()
    told = [f"{name}={spelled(value)}" for name, value in settings if name in _TOLD or value != defaults[name]]
    return " ".join([method_name(method), *told])


def spelled(value: object) -> str:
    """A switch's value as users write it."""
    return str(value).lower() if isinstance(value, bool | None) else str(value)
