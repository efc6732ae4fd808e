"""Text to text features for models whose vocabulary is a short list of words.

LlamaGen's text-to-image models read the features of a text encoder, which tell a word from the same word elsewhere.
A model that understands a few dozen words needs no neural encoder for that: the feature of a word is a row of a table,
found by the word, by the phrase it stands in ("red" of the first thing is not "red" of the second), and by the word
that relates the phrases ("left", "and", ...). The phrase number grows after every word that ends a phrase.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from mulo_engines.errors import BundleError, PromptError
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

__all__ = ["WordPromptEncoder"]


class WordPromptEncoder:
    """Encodes prompts word by word.

    Args:
        words: number of every known word, 0 .. W-1; words may share one.
        phrase_ends: the words after which the next phrase begins.
        relations: number of every word that relates phrases, 1 .. C-1; the first one in a prompt counts, none is 0.
        word_features: the table, [C * K * W, E]; K is how many phrases are told apart, the last serves all later ones.
        length: P, the number of positions every prompt is padded to.
        expressions: number of every pair of adjacent words that means something together ("red circle"), 0 .. X-1.
        expression_features: [C * K * X, E], added to the feature of an expression's last word.
    """

    def __init__(
        self,
        words: Mapping[str, int],
        phrase_ends: frozenset[str],
        relations: Mapping[str, int],
        word_features: NDArray[np.float32],
        length: int,
        expressions: Mapping[str, int] | None = None,
        expression_features: NDArray[np.float32] | None = None,
    ) -> None:
        self.words = dict(words)
        self.phrase_ends = phrase_ends
        self.relations = dict(relations)
        self.word_features = word_features
        self.length = length
        self.expressions = dict(expressions or {})
        self.expression_features = word_features[:0] if expression_features is None else expression_features
        contexts, names = 1 + max(relations.values(), default=0), 1 + max(words.values())
        self._table = word_features.reshape(contexts, -1, names, self.width)
        self._pairs = self.expression_features.reshape(contexts, self._table.shape[1], -1, self.width)

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
        phrases = np.minimum(np.cumsum(ends) - ends, self._table.shape[1] - 1)
        relation = next((self.relations[word] for word in words if word in self.relations), 0)
        features: NDArray[np.float32] = self._table[relation, phrases, [self.words[word] for word in words]]
        for place, pair in enumerate(pairwise(words), start=1):
            number = self.expressions.get(" ".join(pair))
            if number is not None:
                features[place] += self._pairs[relation, phrases[place], number]
        return features

    def save(self, path: Path) -> None:
        """Write everything to one safetensors file: tables as tensors, the rest as JSON in its metadata."""
        metadata = {
            "family": "word-prompt",
            "words": json.dumps(self.words),
            "phrase_ends": json.dumps(sorted(self.phrase_ends)),
            "relations": json.dumps(self.relations),
            "expressions": json.dumps(self.expressions),
            "length": str(self.length),
        }
        tables = {"word_features": self.word_features, "expression_features": self.expression_features}
        save_file(tables, path, metadata)

    @classmethod
    def load(cls, path: Path) -> WordPromptEncoder:
        """Read what `save` wrote.

        Raises:
            BundleError: the file does not hold all of it.
        """
        try:
            with safe_open(path, "numpy") as file:
                metadata = file.metadata()
                return cls(
                    words=json.loads(metadata["words"]),
                    phrase_ends=frozenset(json.loads(metadata["phrase_ends"])),
                    relations=json.loads(metadata["relations"]),
                    word_features=file.get_tensor("word_features"),
                    length=int(metadata["length"]),
                    expressions=json.loads(metadata["expressions"]),
                    expression_features=file.get_tensor("expression_features"),
                )
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            raise BundleError(
                f"{path}: not the tables of a prompt encoder of this version",
                found=error,
                fix="export the bundle again with `mulo-export`",
            ) from error
