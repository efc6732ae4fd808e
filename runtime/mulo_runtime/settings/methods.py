"""The methods that decode by the target alone or with a low-resolution drafter, and their switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from mulo_runtime.settings.checks import from_mapping, one_of, require
from mulo_runtime.settings.sampling import Sampling

__all__ = ["AdaptiveZipAR", "AutoRegressive", "MuloSD", "ZipAR"]


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
        require("window", self.window, self.window >= 1, "1 or more")
        one_of("schedule", self.schedule, ("pipelined", "published"))


@dataclass(frozen=True, slots=True)
class AdaptiveZipAR:
    """ZipAR whose rows open when their first token has settled (arXiv 2412.04062, section 3.3): our reading.

    Attributes:
        window: the smallest window, from which on a row may open.
    """

    window: int = 4

    def __post_init__(self) -> None:
        require("window", self.window, self.window >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class MuloSD:
    """Multi-scale local speculative decoding (arXiv 2601.05149): draft, upsample, verify, resample.

    Attributes:
        tau: a candidate is accepted when the target's probability mass of its `pool_k` nearest codebook entries is at
            least tau; 0 accepts everything, above 1 rejects everything.
        pool_k: k of the pooled mass.
        include_self: whether the candidate's own probability counts in the pooled mass.
        redraw_k: an accepted candidate gives way to what the target draws in its place, if that is one of the
            candidate's `redraw_k` nearest codebook entries; 0 keeps every accepted candidate. Not of the paper: an
            enlarged draft lacks the texture that only the target knows, and the verification has drawn it already.
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
    redraw_k: int = 0
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
        require("tau", self.tau, self.tau >= 0, "0 or more")
        require("pool_k", self.pool_k, self.pool_k >= 1, "1 or more")
        require("radius", self.radius, self.radius is None or self.radius >= 0, "0 or more, or None")
        for name in ("redraw_k", "draft_window", "rows_per_round", "look_ahead", "window"):
            require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        self.draft_sampling(Sampling())
        one_of("rejection", self.rejection, ("local", "raster"))
        one_of("draft", self.draft, ("image", "rows"))
        one_of("islands", self.islands, ("parallel", "serial"))
        one_of("surrogate", self.surrogate, ("draft", "latest"))
        one_of("stale", self.stale, ("keep", "mask"))
        one_of("refresh", self.refresh, ("block", "dirty", "none"))
        one_of("guided", self.guided, ("both", "drafter", "target"))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from a manifest's or a user's mapping.

        Raises:
            RequestError: a key is unknown or a value is out of range.
        """
        return from_mapping(cls, values)

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
