"""The precisions a bundle can have, and what each one means for its weights, its caches and its parity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["PRECISIONS", "CacheType", "Precision", "PrecisionTraits"]

CacheType = Literal["float32", "float16", "bfloat16"]
"""numpy's name for the type of a KV cache."""


class Precision(StrEnum):
    """Type of a transformer's weights; the VQ tokenizer stays in float32, where a step spends under one percent."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True)
class PrecisionTraits:
    """What a precision means.

    Attributes:
        weight_type: safetensors type of the floating-point weights.
        cache_type: numpy's name for the type of activations and caches.
        quantized: whether linear layers hold integers and scales.
        tolerance: largest relative error of a transformer's logits and caches, ||a - b|| / ||b||, against float32.
    """

    weight_type: str
    cache_type: CacheType
    quantized: bool
    tolerance: float


PRECISIONS: Mapping[Precision, PrecisionTraits] = {
    Precision.FP32: PrecisionTraits("F32", "float32", False, 1e-4),
    Precision.BF16: PrecisionTraits("BF16", "bfloat16", False, 5e-2),
    Precision.FP16: PrecisionTraits("F16", "float16", False, 1e-2),
    Precision.INT8: PrecisionTraits("F32", "float32", True, 0.2),
    Precision.INT4: PrecisionTraits("F32", "float32", True, 0.5),
}
