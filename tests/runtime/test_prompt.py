"""The word prompt encoder: order, padding, errors and its file."""

from pathlib import Path

import numpy as np
import pytest

from mulo_engines.errors import PromptError
from mulo_runtime.prompt import WordPromptEncoder

WORDS = {"a": 0, "red": 1, "blue": 2, "circle": 3, "circles": 3, "square": 4}
ONE_HOT = np.eye(8, dtype=np.float32)


@pytest.fixture
def encoder() -> WordPromptEncoder:
    return WordPromptEncoder(WORDS, frozenset({"circle", "circles", "square"}), ONE_HOT[:5], ONE_HOT[5:], length=6)


def test_words_fill_the_last_positions_and_padding_is_zero(encoder: WordPromptEncoder) -> None:
    features, mask = encoder.encode(["a red circle", "a red circle a blue square"])
    assert features.shape == (2, 6, 8)
    assert features.dtype == np.float32
    assert mask.tolist() == [[False] * 3 + [True] * 3, [True] * 6]
    assert not features[0, :3].any()
    assert features[0, 3:].any(-1).all()


def test_a_feature_is_the_word_and_the_phrase_it_stands_in(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["red circle red square a blue"])
    expected = [(1, 0), (3, 0), (1, 1), (4, 1), (0, 2), (2, 2)]
    assert [tuple(np.nonzero(feature)[0]) for feature in features[0]] == [
        (word, 5 + phrase) for word, phrase in expected
    ]


def test_phrases_beyond_the_table_share_its_last_row(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["circle circle circle circle circle circle"])
    assert features[0, :, 5:].argmax(-1).tolist() == [0, 1, 2, 2, 2, 2]


def test_the_set_of_features_tells_which_word_belongs_to_which_phrase(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["red circle blue square", "blue circle red square"])
    first, second = ({tuple(feature) for feature in prompt} for prompt in features)
    assert first != second


def test_words_that_share_a_row_and_capitals_make_no_difference(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["a red circle", "A Red  circles"])
    assert np.array_equal(*features)


def test_an_unknown_word_is_named_with_the_known_ones(encoder: WordPromptEncoder) -> None:
    with pytest.raises(PromptError, match=r"(?s)'green'.*a, blue, circle, circles, red, square"):
        encoder.encode(["a red circle", "a green circle"])


@pytest.mark.parametrize(("prompt", "found"), [("", "0 words"), ("a a a a a a a", "7 words")])
def test_a_prompt_that_does_not_fit_is_refused(encoder: WordPromptEncoder, prompt: str, found: str) -> None:
    with pytest.raises(PromptError, match=rf"(?s){found}.*1 to 6 words"):
        encoder.encode([prompt])


def test_an_encoder_is_the_same_after_saving_and_loading(encoder: WordPromptEncoder, tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    encoder.save(path)
    loaded = WordPromptEncoder.load(path)
    assert (loaded.words, loaded.phrase_ends, loaded.length) == (encoder.words, encoder.phrase_ends, encoder.length)
    for before, after in zip(encoder.encode(["a blue square"]), loaded.encode(["a blue square"]), strict=True):
        assert np.array_equal(before, after)
