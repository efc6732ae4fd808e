"""The words of the scene language as the prompt encoder's table."""

import numpy as np
from mulo_runtime.prompt import WordPromptEncoder
from numpy.typing import NDArray

from mulo_tools.reference.scenes import BACKGROUNDS, COLOURS, COUNTS, SHAPES, plural

PREFIX_LENGTH = 12
"""Positions of the text prefix; the longest caption has ten words."""
PHRASES = 3
"""The first thing, the second thing, the background."""
RELATION_WORDS = ("and", "left", "right", "above", "below")
WORDS = ("a", "of", "on", *RELATION_WORDS, *COUNTS, *SHAPES, *COLOURS, *BACKGROUNDS)


def scene_prompt_encoder() -> WordPromptEncoder:
    """The encoder of captions; a plural has its singular's feature."""
    numbers = {name: number for number, name in enumerate(WORDS)}
    plurals = {plural(shape): numbers[shape] for shape in SHAPES}
    things = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    expressions = {f"{colour} {shape}": number for number, (colour, shape) in enumerate(things)}
    expressions |= {f"{colour} {plural(shape)}": number for number, (colour, shape) in enumerate(things)}
    word_features = feature_table(1 + len(RELATION_WORDS), PHRASES, len(WORDS))
    expression_features = feature_table(1 + len(RELATION_WORDS), PHRASES, len(things))
    return WordPromptEncoder(
        words=numbers | plurals,
        phrase_ends=frozenset((*SHAPES, *plurals)),
        relations={name: 1 + number for number, name in enumerate(RELATION_WORDS)},
        word_features=np.pad(word_features, ((0, 0), (0, expression_features.shape[1]))),
        length=PREFIX_LENGTH,
        expressions=expressions,
        expression_features=np.pad(expression_features, ((0, 0), (word_features.shape[1], 0))),
    )


def feature_table(relations: int, phrases: int, words: int) -> NDArray[np.float32]:
    """One-hot words beside one-hot (relation, phrase, word), a row for each triple.

    Prefix keys of LlamaGen are zero, so an image token sees only the mean over the prefix: whatever words mean together
    has to be in their features. The columns of words let triples that are rare share what they have in common.
    """
    triples = relations * phrases * words
    shared = np.tile(np.eye(words, dtype=np.float32), (relations * phrases, 1))
    return np.hstack([shared, np.eye(triples, dtype=np.float32)])
