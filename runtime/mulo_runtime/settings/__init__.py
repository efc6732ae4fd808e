"""What a request may choose: how tokens are drawn, and by which method the image is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mulo_runtime.settings.chain import CoolSD, Lantern, LanternPlus, LinearRSD, Speculative, UniformRSD
from mulo_runtime.settings.fallback import Fallback
from mulo_runtime.settings.jacobi import GSD, PJD, SJD
from mulo_runtime.settings.methods import AdaptiveZipAR, AutoRegressive, MuloSD, ZipAR
from mulo_runtime.settings.sampling import Sampling

__all__ = [
    "GSD",
    "METHODS",
    "PJD",
    "SJD",
    "AdaptiveZipAR",
    "AutoRegressive",
    "Chain",
    "CoolSD",
    "Fallback",
    "Jacobi",
    "Lantern",
    "LanternPlus",
    "LinearRSD",
    "Method",
    "MuloSD",
    "Sampling",
    "Sequential",
    "Speculative",
    "UniformRSD",
    "ZipAR",
    "method_name",
    "method_settings",
]

Chain = Speculative | Lantern | LanternPlus | CoolSD | UniformRSD | LinearRSD
"""A method that drafts a chain of tokens with the target's EAGLE head."""

Jacobi = SJD | GSD
"""A method in which the target drafts for itself."""

Sequential = Chain | Jacobi | PJD | AdaptiveZipAR
"""A method that verifies drafted tokens of the target's own grid, by distributions."""

Method = AutoRegressive | ZipAR | MuloSD | Sequential
"""A way to decode an image."""

METHODS: Mapping[str, type[Method]] = {
    "ar": AutoRegressive,
    "zipar": ZipAR,
    "zipar-adaptive": AdaptiveZipAR,
    "mulo-sd": MuloSD,
    "sjd": SJD,
    "gsd": GSD,
    "pjd": PJD,
    "speculative": Speculative,
    "lantern": Lantern,
    "lantern++": LanternPlus,
    "cool-sd": CoolSD,
    "uniform-rsd": UniformRSD,
    "linear-rsd": LinearRSD,
}
"""The methods by their names on the command line."""

_NAMES = {kind: name for name, kind in METHODS.items()}


def method_name(method: Method) -> str:
    """The method's name on the command line, such as "mulo-sd"."""
    return _NAMES[type(method)]


def method_settings(method: Method) -> dict[str, Any]:
    """The method's switches as plain values."""
    return asdict(method)
