"""What goes in and out at `/v1/images/generations`: OpenAI's fields, and under names of their own those of mulo."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "CompletedEvent",
    "ErrorBody",
    "ErrorResponse",
    "Image",
    "ImageRequest",
    "ImagesResponse",
    "MuloFigures",
    "MuloPreview",
    "PartialEvent",
    "SamplingFields",
    "Switch",
    "Usage",
]

Switch = float | int | str | bool | None
Share = Annotated[float, Field(ge=0, le=1)]


class SamplingFields(BaseModel):
    """How tokens are drawn; what is not given is as the bundle has it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    guidance_scale: Annotated[float, Field(ge=0, le=100)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0, le=3840)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None


class ImageRequest(BaseModel):
    """One request; a field that is not listed is refused by its name.

    Attributes:
        prompt: what the image shows; for class-conditional bundles the number of a class.
        n: how many images; image j, counted from 0, has the seed `seed` + j.
        size: "auto", or the one size that the bundle makes.
        model, response_format, output_format, quality, background: "mulo" or the bundle's family, and what there is.
        stream: send events; for n = 1.
        partial_images: looks at the unfinished image, the draft first; OpenAI's clients allow up to 3.
        seed: drawn and told where it is not given.
        method: how the image is decoded; the bundle's MuLo-SD where it is not given.
        settings: switches of the method, such as {"tau": 0.1}; see `mulo generate --help`.
        sampling: how tokens are drawn.
        floor: accepted share below which MuLo-SD is given up for ZipAR.
        deadline: seconds; cut to the service's own limit.
        priority: requests that wait are served by it, the highest first.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    prompt: Annotated[str, Field(min_length=1, max_length=1000)]
    model: Annotated[str, Field(max_length=200)] | None = None
    n: Annotated[int, Field(ge=1, le=100)] | None = None
    size: Annotated[str, Field(max_length=20)] | None = None
    response_format: Literal["b64_json"] | None = None
    output_format: Literal["png"] | None = None
    quality: Literal["auto"] | None = None
    background: Literal["auto", "opaque"] | None = None
    stream: bool | None = None
    partial_images: Annotated[int, Field(ge=0, le=10_000)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    method: Literal["ar", "zipar", "mulo-sd"] | None = None
    settings: Annotated[dict[str, Switch], Field(max_length=32)] | None = None
    sampling: SamplingFields | None = None
    floor: Share | None = None
    deadline: Annotated[float, Field(gt=0)] | None = None
    priority: Annotated[int, Field(ge=-9, le=9)] | None = None


class MuloPreview(BaseModel):
    """What a partial image shows: a draft, verified candidates with what is about to be resampled, or final rows.

    `seconds` have passed since the lane's lease, without the time that making partial images takes.
    """

    stage: Literal["draft", "verified", "rows"]
    rows: int
    total: int
    seconds: float
    accepted_share: float | None = None
    accept_map: list[str] | None = None


class MuloFigures(BaseModel):
    """What made an image, and what it took.

    Attributes:
        accept_map: a digit per token and a string per row: 0 not verified, 1 accepted, 2 rejected, 3 resampled beside.
        passes: passes by engine.
        phases: seconds inside engines by phase.
        seconds: from lane lease to decoded image.
        queue_seconds: seconds that the request waited for its lane.
        abandoned_share: the accepted share at which MuLo-SD was given up; null where it was not.
    """

    seed: int
    method: str
    settings: dict[str, Switch]
    sampling: dict[str, float | int]
    accept_map: list[str]
    accepted_share: float | None
    resampled_share: float | None
    abandoned_share: float | None
    passes: dict[str, int]
    phases: dict[str, float]
    seconds: float
    queue_seconds: float


class InputTokens(BaseModel):
    """Tokens of the prompt."""

    image_tokens: int = 0
    text_tokens: int


class Usage(BaseModel):
    """Tokens that went in and came out."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, words: int, image_tokens: int) -> Usage:
        """`words` words of a prompt and `image_tokens` tokens of images."""
        return cls(
            input_tokens=words,
            input_tokens_details=InputTokens(text_tokens=words),
            output_tokens=image_tokens,
            total_tokens=words + image_tokens,
        )


class Image(BaseModel):
    """One finished image."""

    b64_json: str
    mulo: MuloFigures


class _Picture(BaseModel):
    size: str
    quality: Literal["auto"] = "auto"
    background: Literal["opaque"] = "opaque"
    output_format: Literal["png"] = "png"


class ImagesResponse(BaseModel):
    """The answer to a request that does not stream."""

    created: int
    size: str
    background: Literal["opaque"] = "opaque"
    output_format: Literal["png"] = "png"
    data: list[Image]
    usage: Usage


class PartialEvent(_Picture):
    """A look at the unfinished image."""

    type: Literal["image_generation.partial_image"] = "image_generation.partial_image"
    b64_json: str
    created_at: int
    partial_image_index: int
    mulo: MuloPreview


class CompletedEvent(_Picture):
    """The finished image; the last event."""

    type: Literal["image_generation.completed"] = "image_generation.completed"
    b64_json: str
    created_at: int
    usage: Usage
    mulo: MuloFigures


class ErrorBody(BaseModel):
    """What went wrong, in OpenAI's form."""

    message: str
    type: str
    param: str | None = None
    code: str


class ErrorResponse(BaseModel):
    """The body of every answer that is not 2xx."""

    error: ErrorBody
