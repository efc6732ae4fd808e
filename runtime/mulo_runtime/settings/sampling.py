"""How tokens are drawn, whatever the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mulo_runtime.settings.checks import from_mapping, require

__all__ = ["Sampling"]

_TOP_K_LIMIT = 3840


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one token is drawn from the logits, by the target and the drafter alike.

    Attributes:
        guidance_scale: s of u + s (c - u), with c the conditional and u the null logits; 1 or less turns guidance off.
        temperature: divides the logits; 0 takes the most probable token.
        top_k: keeps the k largest logits, ties included; 0 keeps all, and 3840 is the most that TensorRT can sort.
        top_p: keeps the smallest set of tokens whose probability reaches it; 1 keeps all.
    """

    guidance_scale: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        require("guidance_scale", self.guidance_scale, 0 <= self.guidance_scale < float("inf"), "0 or more")
        require("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 or more")
        require("top_k", self.top_k, 0 <= self.top_k <= _TOP_K_LIMIT, f"0 to {_TOP_K_LIMIT}")
        require("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, at most 1")

    @property
    def guided(self) -> bool:
        """Whether a null half is decoded beside the conditional half."""
        return self.guidance_scale > 1

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from a manifest's or a user's mapping.

        Raises:
            RequestError: a key is unknown or a value is out of range.
        """
        return from_mapping(cls, values)
