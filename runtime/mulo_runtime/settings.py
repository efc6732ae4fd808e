"""What a request may choose: how tokens are drawn, and by which method the image is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self, TypeVar

from mulo_engines.errors import RequestError

__all__ = ["AutoRegressive", "Fallback", "Method", "MuloSD", "Sampling", "ZipAR", "method_name", "method_settings"]


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
        _require("guidance_scale", self.guidance_scale, 0 <= self.guidance_scale < float("inf"), "0 or more")
        _require("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 or more")
        _require("top_k", self.top_k, 0 <= self.top_k <= _TOP_K_LIMIT, f"0 to {_TOP_K_LIMIT}")
        _require("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, at most 1")

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
        return _from_mapping(cls, values)


@dataclass(frozen=True, slots=True)
class AutoRegressive:
    """Plain decoding in raster order: one pass of the target per token."""


@dataclass(frozen=True, slots=True)
class ZipAR:
    """Rows decoded in parallel, each `window` tokens behind the row above (ZipAR, arXiv 2412.04062).

    Attributes:
        window: W; W' = min(W, columns) is used.
        schedule: "pipelined" starts the second row W' tokens into the first, C + (R-1) W' passes; "published" decodes
            the first row alone as the authors' LlamaGen code does, 2 C + (R-2) W' passes.
    """

    window: int = 8
    schedule: Literal["pipelined", "published"] = "pipelined"

    def __post_init__(self) -> None:
        _require("window", self.window, self.window >= 1, "1 or more")
        _one_of("schedule", self.schedule, ("pipelined", "published"))


@dataclass(frozen=True, slots=True)
class MuloSD:
    """Multi-scale local speculative decoding (arXiv 2601.05149): draft, upsample, verify, resample.

    Attributes:
        tau: a candidate is accepted when the target's probability mass of its `pool_k` nearest codebook entries is at
            least tau; 0 accepts everything, above 1 rejects everything.
        pool_k: k of the pooled mass.
        include_self: whether the candidate's own probability counts in the pooled mass.
        radius: Chebyshev radius l by which every rejection is expanded, clipped to the round and to the tokens from
            the first rejection on; None turns expansion off.
        rejection: "local" resamples the expanded rejections; "raster" resamples everything from the first rejection
            on, as token-sequential speculative decoding would.
        draft: "image" drafts the whole low-resolution image before the first round; "rows" drafts as rounds need it.
        draft_window: ZipAR window of the drafter; 0 drafts serially.
        draft_temperature: temperature of the drafter; None takes the target's.
        draft_top_k: top_k of the drafter; None takes the target's.
        rows_per_round: low-resolution rows verified in one round; 0 verifies the whole image at once.
        look_ahead: low-resolution rows drafted beyond the round, once and for all, to give the upsampler context.
        islands: "parallel" resamples one token per open row of every island in a wave; "serial" resamples in raster
            order, one token a pass.
        window: ZipAR window inside an island; 0 lets a row wait for the whole row above.
        surrogate: what a row starts from whose raster predecessor is still to be resampled: the "draft" token in that
            place, or the "latest" token of the row above as ZipAR does.
        stale: whether tokens that are still to be resampled are seen meanwhile with their draft keys ("keep") or are
            hidden ("mask").
        refresh: which keys of a round are computed anew: "block" refeeds everything from the first change on with the
            next round's verification, "dirty" refeeds the last token of every resampled run with the next wave,
            "none" does neither.
        resynchronise: whether verified tokens, downsampled, replace the drafter's own in its prefix ("rows" only).
        guided: which models are steered by the sampling's guidance, "both", the "drafter" or the "target"; the other
            one decodes no null half, which halves its cost.
    """

    tau: float = 0.1
    pool_k: int = 8
    include_self: bool = True
    radius: int | None = 1
    rejection: Literal["local", "raster"] = "local"
    draft: Literal["image", "rows"] = "image"
    draft_window: int = 2
    draft_temperature: float | None = None
    draft_top_k: int | None = None
    rows_per_round: int = 1
    look_ahead: int = 1
    islands: Literal["parallel", "serial"] = "parallel"
    window: int = 4
    surrogate: Literal["draft", "latest"] = "draft"
    stale: Literal["keep", "mask"] = "keep"
    refresh: Literal["block", "dirty", "none"] = "block"
    resynchronise: bool = True
    guided: Literal["both", "drafter", "target"] = "both"

    def __post_init__(self) -> None:
        _require("tau", self.tau, self.tau >= 0, "0 or more")
        _require("pool_k", self.pool_k, self.pool_k >= 1, "1 or more")
        _require("radius", self.radius, self.radius is None or self.radius >= 0, "0 or more, or None")
        for name in ("draft_window", "rows_per_round", "look_ahead", "window"):
            _require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        self.draft_sampling(Sampling())
        _one_of("rejection", self.rejection, ("local", "raster"))
        _one_of("draft", self.draft, ("image", "rows"))
        _one_of("islands", self.islands, ("parallel", "serial"))
        _one_of("surrogate", self.surrogate, ("draft", "latest"))
        _one_of("stale", self.stale, ("keep", "mask"))
        _one_of("refresh", self.refresh, ("block", "dirty", "none"))
        _one_of("guided", self.guided, ("both", "drafter", "target"))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from a manifest's or a user's mapping.

        Raises:
            RequestError: a key is unknown or a value is out of range.
        """
        return _from_mapping(cls, values)

    def draft_sampling(self, sampling: Sampling) -> Sampling:
        """How the drafter draws its tokens when the target samples by `sampling`."""
        return replace(
            sampling,
            temperature=sampling.temperature if self.draft_temperature is None else self.draft_temperature,
            top_k=sampling.top_k if self.draft_top_k is None else self.draft_top_k,
        )

    def with_changes(self, **changes: Any) -> Self:
        """A copy with some switches set otherwise."""
        return replace(self, **changes)


Method = AutoRegressive | ZipAR | MuloSD
"""A way to decode an image."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """Gives MuLo-SD up for a method without a drafter, where the drafter is of little use.

    Attributes:
        floor: the accepted share below which the image is begun anew, looked at after every verification.
        method: how it is then decoded; its tokens are those that this method alone gives for the seed.
    """

    floor: float
    method: ZipAR | AutoRegressive = field(default_factory=ZipAR)

    def __post_init__(self) -> None:
        _require("floor", self.floor, 0 <= self.floor <= 1, "0 to 1")


_T = TypeVar("_T")
_TOP_K_LIMIT = 3840
_NAMES: Mapping[type[Any], str] = {AutoRegressive: "ar", ZipAR: "zipar", MuloSD: "mulo-sd"}


def method_name(method: Method) -> str:
    """The method's name on the command line: "ar", "zipar" or "mulo-sd"."""
    return _NAMES[type(method)]


def method_settings(method: Method) -> dict[str, Any]:
    """The method's switches as plain values."""
    return asdict(method)


def _require(name: str, value: object, valid: bool, expected: str) -> None:
    if not valid:
        raise RequestError(f"setting {name!r} is out of range", found=value, expected=expected)


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    _require(name, value, value in choices, " or ".join(choices))


def _from_mapping(cls: type[_T], values: Mapping[str, Any]) -> _T:
    known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - known)
    if unknown:
        raise RequestError(
            f"unknown settings for {cls.__name__}: {', '.join(unknown)}", expected=", ".join(sorted(known))
        )
    return cls(**values)
