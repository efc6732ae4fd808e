"""The precisions a bundle can have, and what each one means for its weights, its caches and its parity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["PRECISIONS", "TENSORRT_FORMS", "CacheType", "CodeType", "Precision", "PrecisionTraits"]

CacheType = Literal["float32", "float16", "bfloat16"]
"""numpy's name for the type of a KV cache."""
CodeType = Literal["int8", "int4", "float8e4m3fn"]
"""ONNX's name for the type of quantized weights."""


class Precision(StrEnum):
    """Type of a transformer's weights; the VQ tokenizer stays in float32, where a step spends under one percent.

    NVIDIA's parser rejects the integer products of ONNX Runtime, whose CPU kernels in turn gain nothing from weights
    that are dequantized to float16. So 8 and 4 bits have a form for each: `int8` and `int4` are ONNX Runtime's.
    """

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT8_TENSORRT = "int8-tensorrt"
    INT4 = "int4"
    INT4_TENSORRT = "int4-tensorrt"


@dataclass(frozen=True, slots=True)
class PrecisionTraits:
    """What a precision means.

    Attributes:
        weight_type: safetensors type of the floating-point weights.
        cache_type: numpy's name for the type of activations and caches.
        linear_bytes: bytes that one weight of a linear layer takes, its share of the scales included.
        quantized: whether ONNX Runtime's quantizer rewrites the graph's linear layers.
        codes: type of a linear layer's weights in the form for NVIDIA's builders; None where they have none.
        tolerance: largest relative error of a transformer's logits and caches, ||a - b|| / ||b||, against float32.
    """

    weight_type: str
    cache_type: CacheType
    linear_bytes: float
    quantized: bool
    codes: CodeType | None
    tolerance: float


PRECISIONS: Mapping[Precision, PrecisionTraits] = {
    Precision.FP32: PrecisionTraits("F32", "float32", 4, False, None, 1e-4),
    Precision.BF16: PrecisionTraits("BF16", "bfloat16", 2, False, None, 5e-2),
    Precision.FP16: PrecisionTraits("F16", "float16", 2, False, None, 1e-2),
    Precision.FP8: PrecisionTraits("F16", "float16", 1, False, "float8e4m3fn", 0.2),
    Precision.INT8: PrecisionTraits("F32", "float32", 1, True, None, 0.2),
    Precision.INT8_TENSORRT: PrecisionTraits("F16", "float16", 1, False, "int8", 0.2),
    Precision.INT4: PrecisionTraits("F32", "float32", 0.5 + 4 / 32, True, None, 0.5),
    Precision.INT4_TENSORRT: PrecisionTraits("F16", "float16", 0.5 + 2 / 32, False, "int4", 0.5),
}
TENSORRT_FORMS: Mapping[str, Precision] = {
    Precision.INT8: Precision.INT8_TENSORRT,
    Precision.INT4: Precision.INT4_TENSORRT,
}
"""The form that NVIDIA's builders read, of a precision whose own form they reject."""
