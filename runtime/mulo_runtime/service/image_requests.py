"""From a body's fields to the runtime's requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from mulo_engines.errors import RequestError
from mulo_engines.manifest import Manifest
from pydantic import TypeAdapter, ValidationError

from mulo_runtime.conditions import ClassId, Condition, Prompt
from mulo_runtime.pipeline import Pipeline
from mulo_runtime.request import Request
from mulo_runtime.service.limits import Limits
from mulo_runtime.service.schema import ImageRequest
from mulo_runtime.settings import AutoRegressive, Fallback, Method, MuloSD, ZipAR

__all__ = ["image_size", "make_requests", "require_prompts"]

_SEEDS = 2**64
_METHODS: Mapping[str, type[Method]] = {"ar": AutoRegressive, "zipar": ZipAR, "mulo-sd": MuloSD}
_CHECKED: Mapping[str, TypeAdapter[Any]] = {name: TypeAdapter(method) for name, method in _METHODS.items()}
_SETTINGS = {name: [field.name for field in fields(method)] for name, method in _METHODS.items()}


def make_requests(body: ImageRequest, pipeline: Pipeline, limits: Limits) -> list[Request]:
    """A request for each of the n images.

    Raises:
        RequestError: the bundle or the service cannot do what is asked for.
    """
    manifest, images = pipeline.bundle.manifest, body.n or 1
    _refuse_unavailable(body, manifest, limits, images)
    request = Request(
        condition=_condition(body.prompt, manifest),
        seed=body.seed,
        method=_method(body, pipeline.method),
        sampling=replace(pipeline.sampling, **body.sampling.model_dump(exclude_none=True) if body.sampling else {}),
        deadline=min(body.deadline or limits.deadline, limits.deadline),
        priority=body.priority or 0,
        fallback=None if body.floor is None else Fallback(body.floor),
    )
    return [replace(request, seed=None if body.seed is None else body.seed + index) for index in range(images)]


def require_prompts(manifest: Manifest) -> None:
    """Refuse to serve a bundle whose condition no prompt can say.

    Raises:
        RequestError: it reads features or codes that are made elsewhere.
    """
    kind = manifest.condition.kind
    if kind == "ta_tok" or (kind == "text" and manifest.prompt is None):
        raise RequestError(
            "no prompt can ask this bundle for an image",
            found="TA-Tok codes" if kind == "ta_tok" else "text features of an encoder that the bundle does not bring",
            expected="a bundle that reads words or classes",
            fix="embed mulo_runtime.Pipeline, whose requests take features and codes",
        )


def image_size(manifest: Manifest) -> str:
    """The size of the images, as OpenAI writes it."""
    side = manifest.pixels_per_token
    return f"{manifest.target.cols * side}x{manifest.target.rows * side}"


def _refuse_unavailable(body: ImageRequest, manifest: Manifest, limits: Limits, images: int) -> None:
    size = image_size(manifest)
    if body.model not in (None, "mulo", manifest.family):
        raise RequestError("there is no such model", found=repr(body.model), expected=f"'mulo' or '{manifest.family}'")
    if body.size not in (None, "auto", size):
        raise RequestError("the bundle makes no images of this size", found=repr(body.size), expected=f"'{size}'")
    if images > limits.images:
        raise RequestError("too many images in one request", found=f"n = {images}", expected=f"at most {limits.images}")
    if images > 1 and body.stream:
        raise RequestError("only one image can be streamed", found=f"n = {images}", expected="n = 1")
    if body.seed is not None and body.seed + images > _SEEDS:
        last = body.seed + images - 1
        raise RequestError("the last image's seed is out of range", found=last, expected="below 2**64")


def _condition(prompt: str, manifest: Manifest) -> Condition:
    if manifest.condition.kind != "class":
        return Prompt(prompt)
    if not prompt.isascii() or not prompt.isdigit() or len(prompt) > 9:
        raise RequestError("the prompt is no class", found=repr(prompt), expected="the number of a class")
    return ClassId(int(prompt))


def _method(body: ImageRequest, recommended: MuloSD) -> Method:
    """The method asked for; MuLo-SD starts from what the bundle recommends."""
    name = body.method or "mulo-sd"
    given = {**(asdict(recommended) if name == "mulo-sd" else {}), **(body.settings or {})}
    known = _SETTINGS[name]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise RequestError(f"{name} has no setting {unknown[0]!r}", expected=", ".join(known) or "no setting")
    try:
        method: Method = _CHECKED[name].validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = f"{name}: the setting {first['loc'][0]!r} is refused: {first['msg']}"
        raise RequestError(what, found=first["input"]) from None
    return method
