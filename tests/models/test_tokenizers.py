"""Tokenizers as training makes them."""

import json

import pytest

from limelight_bundle.detokenizing import Detokenizer
from limelight_bundle.text import Encoder
from limelight_models.data import tokenizers

TEXTS = ["The cat sat on the mat.", "Où est le chat ? Là-bas, peut-être…", "12/03/1998"]
MADE = {
    "words": tokenizers.words(TEXTS, vocabulary=100),
    "characters": tokenizers.characters(TEXTS, lower=True, output=False),
    "put out characters": tokenizers.characters(TEXTS, lower=False, output=True),
    "pieces": tokenizers.pieces(TEXTS, vocabulary=60, output=False),
    "put out pieces": tokenizers.pieces(TEXTS, vocabulary=60, output=True),
}


@pytest.mark.parametrize("name", MADE)
def test_padding_is_0_and_the_unknown_1(name: str) -> None:
    encoder = Encoder(MADE[name])
    assert (encoder.token(0), encoder.token(1)) == (tokenizers.PAD, tokenizers.UNKNOWN)
    assert encoder.encode(["☃"])[0].ids[-1] == 1


@pytest.mark.parametrize("name", ["words", "characters", "pieces"])
@pytest.mark.parametrize("text", ["[pad]", "the [end] cat", "[unk][begin]"])
def test_nothing_that_somebody_writes_is_a_special_token(name: str, text: str) -> None:
    encoded = Encoder(MADE[name], special_tokens=True).encode([text])[0]
    assert 0 not in encoded.ids and not encoded.special


@pytest.mark.parametrize("name", ["put out characters", "put out pieces"])
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_put_out_reads_as_it_was_written(name: str, text: str) -> None:
    begin, end = tokenizers.special_ids(MADE[name])
    encoded = Encoder(MADE[name], special_tokens=True).encode([text])[0]
    assert encoded.ids[-1] == end and begin not in encoded.ids
    assert Detokenizer(MADE[name]).text(encoded.ids) == text


def test_a_cut_target_still_ends() -> None:
    end = tokenizers.special_ids(MADE["put out characters"])[1]
    encoded = Encoder(MADE["put out characters"], special_tokens=True, maximum=4).encode([TEXTS[0]])[0]
    assert encoded.truncated and len(encoded.ids) == 4 and encoded.ids[-1] == end


@pytest.mark.parametrize("name", ["words", "characters", "pieces"])
def test_tokens_know_where_they_stand(name: str) -> None:
    text = "Là-bas, le chat"
    encoded = Encoder(MADE[name]).encode([text])[0]
    assert encoded.texts == [text[start:end] for start, end in zip(encoded.starts, encoded.ends, strict=True)]
    assert encoded.texts[0] == text[: encoded.ends[0]] and encoded.texts[-1] == text[encoded.starts[-1] :]


def test_training_twice_gives_the_same_file() -> None:
    assert MADE["words"] == tokenizers.words(TEXTS, vocabulary=100)
    assert MADE["pieces"] == tokenizers.pieces(TEXTS, vocabulary=60, output=False)


def test_the_most_frequent_words_are_kept() -> None:
    made = json.loads(tokenizers.words(["b b b a a c", "A b"], vocabulary=4))
    assert made["model"]["vocab"] == {"[pad]": 0, "[unk]": 1, "b": 2, "a": 3}
