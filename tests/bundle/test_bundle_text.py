"""Sentences and tokens, and where they stand in the text."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from limelight_bundle.detokenizing import Detokenizer
from limelight_bundle.errors import BundleError
from limelight_bundle.splitting import split_lines, split_sentences, split_words
from limelight_bundle.text import Encoder
from tests.bundle import small
from tests.kit.durations import takes_linear_time

Split = Callable[[str, int], Iterator[tuple[int, int]]]


def sentences(text: str, most: int = 0) -> list[str]:
    return [text[begin:end] for begin, end in split_sentences(text, most)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “Go.” Then (he left.) So", ["He said “Go.”", "Then (he left.)", "So"]),
        ("It costs 3.50 at example.com now.", ["It costs 3.50 at example.com now."]),
        ("What?! No... Yes", ["What?!", "No...", "Yes"]),
        ("A title\n\nA text\n  \t\nand\nmore", ["A title", "A text", "and\nmore"]),
        ("😀. 𝒳 is. naïve", ["😀.", "𝒳 is.", "naïve"]),
        ("", []),
        (" \n\n \t", []),
        (". . .", [".", ".", "."]),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_long_sentence_is_split_at_white_space_and_a_long_word_anywhere() -> None:
    assert sentences("one two three four", 9) == ["one two", "three", "four"]
    assert sentences("abcdefghij k", 4) == ["abcd", "efgh", "ij k"]


def test_lines_end_where_lines_end() -> None:
    text = "def f(x):\n    # Why. Because.\r\n\r\n\treturn x \rend"
    lines = [text[begin:end] for begin, end in split_lines(text)]
    assert lines == ["def f(x):", "# Why. Because.", "return x", "end"]
    assert list(split_lines("one two three", 8)) == [(0, 7), (8, 13)]


@given(
    st.text(alphabet="ab.!? \n\"')😀", max_size=60), st.integers(0, 12), st.sampled_from([split_sentences, split_lines])
)
def test_sentences_cover_everything_but_white_space(text: str, most: int, split: Split) -> None:
    spans = list(split(text, most))
    assert "".join("".join(text[begin:end].split()) for begin, end in spans) == "".join(text.split())
    assert all(begin < end for begin, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert all(text[begin:end].strip() == text[begin:end] for begin, end in spans)
    assert not most or all(end - begin <= most for begin, end in spans)


def test_words_are_what_white_space_parts() -> None:
    text = " In New\u3000York,\n naïve 😀 "
    assert [text[begin:end] for begin, end in split_words(text)] == ["In", "New", "York,", "naïve", "😀"]
    assert list(split_words(" \t")) == []


@pytest.mark.parametrize("piece", [".", ".'", "\n ", "!?", "a. "])
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    assert takes_linear_time(lambda text: list(split_sentences(text, 100)), piece, 50_000)


def test_offsets_are_code_points_whatever_the_planes_of_the_characters() -> None:
    text = "naïve 😀 𝒳y cat."
    encoded = Encoder(small.tokenizer()).encode([text])[0]
    assert encoded.texts == ["naïve", "😀", "𝒳y", "cat", "."]
    assert encoded.starts == [0, 6, 8, 11, 14]
    assert encoded.ends == [5, 7, 10, 14, 15]
    assert encoded.ids == [9, 10, 11, 3, 6]
    assert not encoded.special
    assert not encoded.truncated


def test_truncation_keeps_the_first_tokens_and_says_so() -> None:
    short, long = Encoder(small.tokenizer(), maximum=3).encode(["the cat sat", "the cat sat ."])
    assert (short.ids, short.truncated) == ([5, 3, 4], False)
    assert (long.ids, long.truncated) == ([5, 3, 4], True)
    assert len(long.texts) == len(long.starts) == len(long.ends) == 3


@pytest.mark.parametrize("token_id", [-1, 12, 2**31, 2**32, 2**63])
def test_an_id_that_the_vocabulary_lacks_has_no_text(token_id: int) -> None:
    assert Encoder(small.tokenizer()).token(token_id) == ""
    assert Detokenizer(small.tokenizer()).token(token_id) == ""


def test_tokens_become_text_again() -> None:
    writer = Detokenizer(small.tokenizer())
    assert writer.text([5, 3, 4]) == "the cat sat"
    assert writer.token(10) == "😀"


def with_regex() -> str:
    content = json.loads(small.tokenizer())
    split = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}
    content["pre_tokenizer"]["pretokenizers"].append(split)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("tokenizer", "reason"),
    [
        (with_regex(), "has a regular expression of no well-known"),
        ("", "is invalid"),
        ("[]", "is invalid"),
        ("{}", "is invalid"),
        ("[" * 100_000, "is invalid"),
        (small.tokenizer()[:-5], "is invalid"),
    ],
)
def test_a_tokenizer_that_is_refused(tokenizer: str, reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        Encoder(tokenizer)


def test_the_word_regex_may_stand_in_a_vocabulary() -> None:
    assert Encoder(small.tokenizer(Regex=12)).encode(["Regex"])[0].ids == [12]


def test_padding_and_truncation_of_the_file_itself_do_not_count() -> None:
    content = json.loads(small.tokenizer())
    content["truncation"] = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {
        "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<pad>",
    }  # fmt: skip
    assert [each.ids for each in Encoder(json.dumps(content)).encode(["the cat", "a"])] == [[5, 3], [2]]


@given(st.lists(st.integers(0, len(small.WORDS) - 1), max_size=30))
def test_what_tokens_add_one_by_one_is_the_whole_text(token_ids: list[int]) -> None:
    writer = Detokenizer(small.tokenizer())
    stream = writer.stream()
    assert "".join(stream.add(token) for token in token_ids) == writer.text(token_ids)


def test_a_character_of_several_tokens_is_written_once_it_is_whole() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({byte: number for number, byte in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    text = "añ€𝄞"
    writer, token_ids = Detokenizer(made.to_str()), made.encode(text).ids
    stream = writer.stream()
    deltas = [stream.add(token) for token in token_ids]
    assert [delta for delta in deltas if delta] == list(text)
    for length in range(1, len(token_ids) + 1):  # the last may end inside a character
        stream = writer.stream()
        cut = "".join(stream.add(token, last=place == length) for place, token in enumerate(token_ids[:length], 1))
        assert cut == writer.text(token_ids[:length])


def test_tokens_of_a_pair_state_their_words_one_text_behind_the_other() -> None:
    pieces = {"[CLS]": 0, "[SEP]": 1, "un": 2, "##do": 3, "it": 4, ".": 5, "[UNK]": 6}
    made = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[CLS]", "[SEP]"])
    made.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    encoder = Encoder(made.to_str(), special_tokens=True)
    assert list(encoder.encode(["undo it."])[0].words) == [-1, 0, 0, 1, 2, -1]
    assert list(encoder.encode_pair("undo it", "it. undo").words) == [-1, 0, 0, 1, -1, 2, 3, 4, 4, -1]
    assert list(encoder.encode([""])[0].words) == [-1, -1]


def test_a_token_stands_for_its_bytes() -> None:
    words = {"<0xF0>": 0, "\u2581the": 1, "é": 2}
    of_words = Detokenizer(Tokenizer(models.WordLevel(words)))
    assert [of_words.data(each) for each in (0, 1, 2, 9)] == [b"\xf0", b" the", "é".encode(), b""]
    made = Tokenizer(models.WordLevel({"\u0120\u00f0\u0141": 0, "\u2581": 1}))
    made.decoder = decoders.ByteLevel()
    of_bytes = Detokenizer(made)
    assert of_bytes.data(0) == b" \xf0\x9f" and of_bytes.data(1) == "\u2581".encode()  # no byte, as of special tokens
