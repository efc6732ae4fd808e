"""How codes, and what belongs to them, are called in a weights file."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BLOCK", "Amax", "input_scale_name", "scale_name", "zero_point_name"]

Amax = Mapping[str, float]
"""The largest magnitude that enters a linear layer, by the name of its weight; empty where it is not known."""

BLOCK = 32
"""Inputs of a linear layer that share a scale in 4 bits."""


def scale_name(weight: str) -> str:
    """The tensor that holds the scales of a quantized weight."""
    return f"{weight}.scale"


def zero_point_name(weight: str) -> str:
    """The tensor that holds the zero points of a weight quantized to uint8."""
    return f"{weight}.zero_point"


def input_scale_name(weight: str) -> str:
    """The tensor that holds the scale of what enters the layer of a quantized weight."""
    return f"{weight}.input_scale"
