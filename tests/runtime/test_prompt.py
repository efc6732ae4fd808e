"""The word prompt encoder: order, padding, errors and its file."""

from pathlib import Path

import numpy as np
import pytest
from mulo_engines.errors import BundleError, PromptError
from mulo_runtime.prompt import WordPromptEncoder
from safetensors.numpy import save_file

WORDS = {"a": 0, "red": 1, "blue": 2, "circle": 3, "circles": 3, "square": 4, "and": 5, "above": 6}
NUMBERS, PHRASES, RELATIONS = 7, 2, 3
TRIPLES = NUMBERS * PHRASES * RELATIONS


@pytest.fixture
def encoder() -> WordPromptEncoder:
    return WordPromptEncoder(
        words=WORDS,
        phrase_ends=frozenset({"circle", "circles", "square"}),
        relations={"and": 1, "above": 2},
        word_features=np.eye(TRIPLES, dtype=np.float32),
        length=6,
    )


def row(relation: int, phrase: int, word: str) -> int:
    """The table row of a word, and with the one-hot table the only column of its feature that is set."""
    return (relation * PHRASES + phrase) * NUMBERS + WORDS[word]


def test_words_fill_the_last_positions_and_padding_is_zero(encoder: WordPromptEncoder) -> None:
    features, mask = encoder.encode(["a red circle", "a red circle a blue square"])
    assert features.shape == (2, 6, TRIPLES)
    assert features.dtype == np.float32
    assert mask.tolist() == [[False] * 3 + [True] * 3, [True] * 6]
    assert not features[0, :3].any()
    assert features[0, 3:].any(-1).all()


def test_a_feature_tells_the_word_and_the_phrase_it_stands_in(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["a red circle a red square"])
    expected = [row(0, 0, "a"), row(0, 0, "red"), row(0, 0, "circle"), row(0, 1, "a"), row(0, 1, "red")]
    assert features[0].argmax(-1).tolist() == [*expected, row(0, 1, "square")]


def test_a_feature_tells_the_relation_of_the_prompt_and_the_first_one_counts(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["circle above circle and circle"])
    words = [(0, "circle"), (1, "above"), (1, "circle"), (1, "and"), (1, "circle")]
    assert features[0, 1:].argmax(-1).tolist() == [row(2, phrase, word) for phrase, word in words]


def test_phrases_beyond_the_table_share_its_last_rows(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["circle circle circle circle circle circle"])
    assert features[0].argmax(-1).tolist() == [row(0, 0, "circle")] + [row(0, 1, "circle")] * 5


def test_an_expression_adds_its_feature_to_its_last_word() -> None:
    words = np.pad(np.eye(4, dtype=np.float32), ((0, 0), (0, 2)))
    pairs = np.pad(np.eye(2, dtype=np.float32), ((0, 0), (4, 0)))
    numbers = {"red": 0, "circle": 1}
    encoder = WordPromptEncoder(numbers, frozenset({"circle"}), {}, words, 3, {"red circle": 0}, pairs)
    features, _ = encoder.encode(["red circle red", "circle red circle"])
    assert [np.nonzero(feature)[0].tolist() for feature in features[0]] == [[0], [1, 4], [2]]
    assert [np.nonzero(feature)[0].tolist() for feature in features[1]] == [[1], [2], [3, 5]]


def test_the_set_of_features_tells_which_word_belongs_to_which_phrase(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["red circle blue square", "blue circle red square"])
    first, second = ({tuple(feature) for feature in prompt} for prompt in features)
    assert first != second


def test_words_that_share_a_row_and_capitals_make_no_difference(encoder: WordPromptEncoder) -> None:
    features, _ = encoder.encode(["a red circle", "A Red  circles"])
    assert np.array_equal(*features)


def test_an_unknown_word_is_named_with_the_known_ones(encoder: WordPromptEncoder) -> None:
    with pytest.raises(PromptError, match=r"(?s)'green'.*a, above, and, blue, circle, circles, red, square"):
        encoder.encode(["a red circle", "a green circle"])


@pytest.mark.parametrize(("prompt", "found"), [("", "0 words"), ("a a a a a a a", "7 words")])
def test_a_prompt_that_does_not_fit_is_refused(encoder: WordPromptEncoder, prompt: str, found: str) -> None:
    with pytest.raises(PromptError, match=rf"(?s){found}.*1 to 6 words"):
        encoder.encode([prompt])


def test_an_encoder_is_the_same_after_saving_and_loading(encoder: WordPromptEncoder, tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    encoder.save(path)
    loaded = WordPromptEncoder.load(path)
    for name in ("words", "phrase_ends", "relations", "expressions", "length", "width"):
        assert getattr(loaded, name) == getattr(encoder, name)
    for before, after in zip(encoder.encode(["a blue square"]), loaded.encode(["a blue square"]), strict=True):
        assert np.array_equal(before, after)


def test_a_file_of_another_version_or_kind_is_refused_by_name(encoder: WordPromptEncoder, tmp_path: Path) -> None:
    path = tmp_path / "prompt.safetensors"
    save_file({"word_features": encoder.word_features}, path, {"family": "word-prompt"})
    with pytest.raises(BundleError, match=r"prompt\.safetensors.*this version"):
        WordPromptEncoder.load(path)
    path.write_bytes(b"not safetensors")
    with pytest.raises(BundleError, match=r"prompt\.safetensors"):
        WordPromptEncoder.load(path)
