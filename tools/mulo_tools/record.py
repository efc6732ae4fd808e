"""What is written down about an image: what made it, so that it can be made again, and what it took."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from mulo_engines.bundle import Bundle
from mulo_engines.manifest import MANIFEST_NAME
from mulo_runtime import (
    ClassId,
    Condition,
    Method,
    Prompt,
    Result,
    Sampling,
    TaTokCodes,
    method_name,
    method_settings,
)

__all__ = ["bundle_digest", "describe_image", "describe_request", "describe_statistics", "png_text"]


def bundle_digest(bundle: Bundle) -> str:
    """SHA-256 of the bundle's manifest, which in turn holds that of every file."""
    return hashlib.sha256((bundle.path / MANIFEST_NAME).read_bytes()).hexdigest()


def describe_image(bundle: Bundle, condition: Condition, result: Result, threads: int) -> dict[str, Any]:
    """Everything that the image depends on, as JSON values."""
    return describe_request(bundle, condition, result.seed, result.method, result.sampling, threads)


def describe_request(
    bundle: Bundle, condition: Condition, seed: int, method: Method, sampling: Sampling, threads: int
) -> dict[str, Any]:
    """Everything that an image depends on, as JSON values, before it is made."""
    return {
        "mulo": version("mulo"),
        "bundle_sha256": bundle_digest(bundle),
        **_describe_condition(condition),
        "seed": seed,
        "method": method_name(method),
        "settings": method_settings(method),
        "sampling": asdict(sampling),
        "threads": threads,
    }


def describe_statistics(result: Result) -> dict[str, Any]:
    """What the image took, as JSON values."""
    statistics = result.statistics
    shares = {name: getattr(statistics, name) for name in ("accepted_share", "resampled_share", "host_share")}
    return asdict(statistics) | shares


def png_text(description: Mapping[str, Any]) -> dict[str, str]:
    """`description` as textual metadata of a PNG file: whole under "mulo", and what viewers show under their names."""
    shown = description.get("prompt", f"class {description['class_id']}" if "class_id" in description else "")
    return {"Software": f"mulo {description['mulo']}", "Description": shown, "mulo": json.dumps(description)}


def _describe_condition(condition: Condition) -> dict[str, Any]:
    if isinstance(condition, Prompt):
        return {"prompt": condition.text}
    if isinstance(condition, ClassId):
        return {"class_id": condition.id}
    if isinstance(condition, TaTokCodes):
        return {"ta_tok_codes_sha256": hashlib.sha256(condition.codes.tobytes()).hexdigest()}
    arrays = condition.features.tobytes() + condition.mask.tobytes()
    return {"text_features_sha256": hashlib.sha256(arrays).hexdigest()}
