"""What a bundle recommends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from mulo_engines.errors import BundleError, RequestError
from mulo_engines.manifest import Manifest

from mulo_runtime.settings import MuloSD, Sampling

__all__ = ["default_method", "default_sampling"]

_Settings = TypeVar("_Settings", Sampling, MuloSD)


def default_method(manifest: Manifest) -> MuloSD:
    """The MuLo-SD that the manifest recommends.

    Raises:
        BundleError: the manifest names a switch that there is not, or a value out of range.
    """
    return _settings(MuloSD, manifest.mulo)


def default_sampling(manifest: Manifest) -> Sampling:
    """The sampling that the manifest recommends.

    Raises:
        BundleError: as for `default_method`.
    """
    return _settings(Sampling, manifest.sampling)


def _settings(kind: type[_Settings], values: Mapping[str, Any]) -> _Settings:
    try:
        return kind.from_mapping(values)
    except RequestError as error:
        raise BundleError("the manifest's defaults are refused", found=error.what, expected=error.expected) from error
