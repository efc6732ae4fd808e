"""What a request is conditioned on, and the embeddings that drafter and target make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mulo_engines.bundle import Bundle
from mulo_engines.engine import Engine
from mulo_engines.errors import RequestError
from mulo_engines.manifest import ConditionRecord
from numpy.typing import NDArray

from mulo_runtime.prompt import WordPromptEncoder

__all__ = [
    "ClassId",
    "Condition",
    "ConditionEncoder",
    "Prompt",
    "TaTokCodes",
    "TextFeatures",
    "example_condition",
]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in words; needs a bundle that brings a prompt encoder."""

    text: str


@dataclass(frozen=True, slots=True)
class ClassId:
    """A class of a class-conditional model."""

    id: int


@dataclass(frozen=True, slots=True, eq=False)
class TextFeatures:
    """Features that a text encoder made elsewhere.

    Attributes:
        features: [P, E] float32; the prompt fills the last positions.
        mask: which positions hold the prompt; [P].
    """

    features: NDArray[np.float32]
    mask: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TaTokCodes:
    """Codes of an image that Tar's language model, or its tokenizer, made elsewhere.

    Attributes:
        codes: [P] int64, in raster order.
    """

    codes: NDArray[np.int64]


Condition = Prompt | ClassId | TextFeatures | TaTokCodes
"""What an image shows."""


class ConditionEncoder:
    """Turns conditions into prefix embeddings.

    Args:
        bundle: brings the prompt encoder, where there is one.
        engines: the graphs "drafter.condition" and "target.condition".
    """

    def __init__(self, bundle: Bundle, engines: Mapping[str, Engine]) -> None:
        self._record, self._engines = bundle.manifest.condition, engines
        prompt = bundle.manifest.prompt
        self._prompts = WordPromptEncoder.load(bundle.file(prompt.file)) if prompt else None

    @property
    def words(self) -> Sequence[str]:
        """The words that prompts may use; empty where the bundle brings no prompt encoder."""
        return sorted(self._prompts.words) if self._prompts else ()

    def example(self) -> Condition:
        """A condition that any request might have."""
        return example_condition(self._record)

    def encode(
        self, conditions: Sequence[Condition], guided: Mapping[str, bool]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """The embeddings [B, P, D] of models by name, and the visible positions [N, P].

        Args:
            conditions: one for each image.
            guided: the models "target" and "drafter", and whether their null half is wanted, too.

        Raises:
            RequestError: a condition is of another kind than the bundle takes, or out of range.
            PromptError: a prompt cannot be encoded.
        """
        inputs, visible = self._inputs(conditions)
        embeds = {model: self._engines[f"{model}.condition"].run_once(inputs)["cond_embeds"] for model in guided}
        images = len(conditions)
        return {model: embeds[model][: 2 * images if guided[model] else images] for model in guided}, visible

    def _inputs(self, conditions: Sequence[Condition]) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        if self._record.kind == "class":
            ids = np.array([_class_id(condition, self._record) for condition in conditions], np.int64)
            return {"class_id": ids}, np.ones((len(ids), self._record.length), np.bool_)
        if self._record.kind == "ta_tok":
            codes = np.stack([_ta_tok_codes(condition, self._record) for condition in conditions])
            return {"ta_tok_codes": codes}, np.ones(codes.shape, np.bool_)
        pairs = [self._features(condition) for condition in conditions]
        return {"text_features": np.stack([pair[0] for pair in pairs])}, np.stack([pair[1] for pair in pairs])

    def _features(self, condition: Condition) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if isinstance(condition, Prompt):
            if self._prompts is None:
                raise _unsuitable(condition, "text features", "--condition FILE.npz with 'features' and 'mask'")
            features, mask = self._prompts.encode([condition.text])
            return features[0], mask[0]
        if not isinstance(condition, TextFeatures):
            raise _unsuitable(condition, "a prompt or text features", "--prompt or --condition")
        _check_features(condition, self._record)
        return condition.features, condition.mask


def example_condition(record: ConditionRecord) -> Condition:
    """A condition that any request to a bundle with this record might have."""
    if record.kind == "class":
        return ClassId(0)
    if record.kind == "ta_tok":
        return TaTokCodes(np.zeros(record.length, np.int64))
    size = (record.length, record.feature_size or 1)
    return TextFeatures(np.zeros(size, np.float32), np.ones(size[0], np.bool_))


def _class_id(condition: Condition, record: ConditionRecord) -> int:
    if not isinstance(condition, ClassId):
        raise _unsuitable(condition, "a class id", "--class-id")
    if record.classes is None or not 0 <= condition.id < record.classes:
        raise RequestError("the class id is out of range", found=condition.id, expected=f"0 to {record.classes} - 1")
    return condition.id


def _ta_tok_codes(condition: Condition, record: ConditionRecord) -> NDArray[np.int64]:
    if not isinstance(condition, TaTokCodes):
        raise _unsuitable(condition, "TA-Tok codes", "--condition FILE.npz with 'codes'")
    codes, count = condition.codes, record.codes or 0
    if codes.shape != (record.length,) or codes.dtype != np.int64 or codes.min() < 0 or codes.max() >= count:
        raise RequestError(
            "the TA-Tok codes do not fit the bundle",
            found=f"{codes.dtype} {codes.shape} from {codes.min(initial=0)} to {codes.max(initial=0)}",
            expected=f"int64 {(record.length,)} from 0 to {count - 1}",
            fix="draw as many codes as the bundle was exported for; mulo-export tar --codes chooses",
        )
    return codes


def _check_features(condition: TextFeatures, record: ConditionRecord) -> None:
    expected = (record.length, record.feature_size)
    found = condition.features.shape, condition.mask.shape, condition.features.dtype, condition.mask.dtype
    if found != (expected, (record.length,), np.dtype(np.float32), np.dtype(np.bool_)):
        raise RequestError(
            "the text features do not fit the bundle",
            found=f"features {found[0]} {found[2]}, mask {found[1]} {found[3]}",
            expected=f"features {expected} float32, mask {expected[:1]} bool",
            fix="encode the prompt with the text encoder that the model was trained with",
        )
    if not np.isfinite(condition.features).all():
        raise RequestError("the text features are not finite", fix="check the text encoder's precision")


def _unsuitable(condition: Condition, expected: str, option: str) -> RequestError:
    return RequestError(
        "the bundle is conditioned otherwise", found=type(condition).__name__, expected=expected, fix=f"use {option}"
    )
