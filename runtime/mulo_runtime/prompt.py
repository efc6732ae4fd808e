"""Text to text features for models whose vocabulary is a short list of words.

LlamaGen's text-to-image models read features of a text encoder, padded on the left and hidden by a mask. A model that
understands a few dozen words needs no neural encoder: the feature of a word is a row of a table plus a row for the
phrase it stands in, so that "red" of the first thing differs from "red" of the second. The phrase number grows after
every word that ends a phrase (for scenes: the name of a shape).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from mulo_engines.errors import PromptError
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

__all__ = ["WordPromptEncoder"]


class WordPromptEncoder:
    """Encodes prompts word by word.

    Args:
        words: row of `word_features` for every known word; words may share a row.
        phrase_ends: the words after which the next phrase begins.
        word_features: [W, E].
        phrase_features: [K, E]; the last row also serves all later phrases.
        length: P, the number of positions every prompt is padded to.
    """

    def __init__(
        self,
        words: Mapping[str, int],
        phrase_ends: frozenset[str],
        word_features: NDArray[np.float32],
        phrase_features: NDArray[np.float32],
        length: int,
    ) -> None:
        self.words = dict(words)
        self.phrase_ends = phrase_ends
        self.word_features = word_features
        self.phrase_features = phrase_features
        self.length = length

    @property
    def width(self) -> int:
        """E, the width of a feature."""
        return int(self.word_features.shape[1])

    def encode(self, prompts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Features [N, P, E] and mask [N, P] of the prompts; the words fill the last positions, the rest is zero.

        Raises:
            PromptError: a prompt is empty or too long, or has a word that is not known.
        """
        features = np.zeros((len(prompts), self.length, self.width), np.float32)
        mask = np.zeros((len(prompts), self.length), np.bool_)
        for row, prompt in enumerate(prompts):
            words = self._split(prompt)
            features[row, self.length - len(words) :] = self._features(words)
            mask[row, self.length - len(words) :] = True
        return features, mask

    def _split(self, prompt: str) -> list[str]:
        words = prompt.lower().split()
        unknown = next((word for word in words if word not in self.words), None)
        if unknown is not None:
            raise PromptError(
                f"The prompt {prompt!r} has a word that the model does not know.",
                found=repr(unknown),
                expected=f"only the words {', '.join(sorted(self.words))}",
                fix="rephrase the prompt with known words",
            )
        if not 0 < len(words) <= self.length:
            raise PromptError(
                f"The prompt {prompt!r} does not fit the model.",
                found=f"{len(words)} words",
                expected=f"1 to {self.length} words",
                fix="shorten the prompt" if words else "give a prompt",
            )
        return words

    def _features(self, words: list[str]) -> NDArray[np.float32]:
        ends = np.array([word in self.phrase_ends for word in words])
        phrases = np.minimum(np.cumsum(ends) - ends, len(self.phrase_features) - 1)
        rows = [self.words[word] for word in words]
        features: NDArray[np.float32] = self.word_features[rows] + self.phrase_features[phrases]
        return features

    def save(self, path: Path) -> None:
        """Write everything to one safetensors file: tables as tensors, the rest as JSON in its metadata."""
        tables = {"word_features": self.word_features, "phrase_features": self.phrase_features}
        metadata = {
            "family": "word-prompt",
            "words": json.dumps(self.words),
            "phrase_ends": json.dumps(sorted(self.phrase_ends)),
            "length": str(self.length),
        }
        save_file(tables, path, metadata)

    @classmethod
    def load(cls, path: Path) -> WordPromptEncoder:
        """Read what `save` wrote."""
        with safe_open(path, "numpy") as file:
            metadata = file.metadata()
            return cls(
                words=json.loads(metadata["words"]),
                phrase_ends=frozenset(json.loads(metadata["phrase_ends"])),
                word_features=file.get_tensor("word_features"),
                phrase_features=file.get_tensor("phrase_features"),
                length=int(metadata["length"]),
            )
