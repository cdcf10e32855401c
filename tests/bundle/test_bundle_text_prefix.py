"""Of a long text no more is tokenised than is kept, and the tokens are those that tokenising all of it would give."""

import json
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from limelight_bundle.text import Encoder
from limelight_bundle.text_prefix import PrefixFinder

WORDS = ("the", "cat", "sat", "on", "mat", ".", "ing", "'s", "12", "e\u0301", "日", "本", "ｶﾞ", "\U0001f600", "x" * 9)
BETWEEN = (" ", "", "  ", "\n", " \n ", "\u200b", "\u0301", "[MASK]", "[MA", "SK]", "''", "'", " " * 40, "\t", "\u3000")


def words() -> Tokenizer:
    """Words by white space, of which the file's longest text is long."""
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(("[UNK]", *WORDS))}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True), "[CLS]", "[SEP]"])
    return made


def pieces() -> Tokenizer:
    """BERT's: normalised, words and marks apart, pieces of words."""
    vocabulary = dict.fromkeys(("[UNK]", *"thecasonm.ing12x'", *(f"##{each}" for each in "thecasonming12x"), "cat"))
    made = Tokenizer(models.WordPiece({word: n for n, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True), "[CLS]", "[SEP]"])
    return made


def of_bytes() -> Tokenizer:
    """GPT-2's: pairs of bytes merged."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = decoders.ByteLevel()
    corpus = [" ".join(WORDS)] * 4
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=320, show_progress=False, initial_alphabet=alphabet)
    )
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=True), "[CLS]", "[SEP]"])
    return made


def of_sentences(*, split: bool = True) -> Tokenizer:
    """SentencePiece's: composed, spaces as a mark; split: or one long word."""
    vocabulary = [("<unk>", 0.0), *((each, -float(len(each))) for each in ("▁", "▁the", "at", *"thecasonm.ing12x日本"))]
    made = Tokenizer(models.Unigram(vocabulary, 0, False))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("''", '"'), normalizers.Strip()])
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=split)
    made.add_special_tokens([AddedToken("[MASK]", rstrip=True), "[CLS]", "[SEP]"])
    return made


def merged() -> Tokenizer:
    """Llama's: no words, but for repeated spaces."""
    made = of_sentences(split=False)
    made.pre_tokenizer = pre_tokenizers.Split(Regex(" {2,}"), "isolated")
    return made


KINDS = {"words": words, "pieces": pieces, "bytes": of_bytes, "sentences": of_sentences, "merged": merged}


@cache
def file_of(kind: str) -> str:
    """A tokenizer.json, with a frame of two tokens, of three for pairs."""
    made = KINDS[kind]()
    ids = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    framing = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ids)
    made.post_processor = framing if kind != "bytes" else processors.Sequence([made.post_processor, framing])
    return str(made.to_str())


@cache
def encoder(kind: str, maximum: int, *, framed: bool) -> Encoder:
    """One that cuts."""
    return Encoder(file_of(kind), special_tokens=framed, maximum=maximum)


@cache
def library(kind: str, maximum: int) -> Tokenizer:
    """The library's own."""
    made = Tokenizer.from_str(file_of(kind))
    if maximum:
        made.enable_truncation(maximum)
    return made


def expected(kind: str, maximum: int, framed: bool, *texts: str) -> tuple[list[int], list[tuple[int, int]], bool]:
    """Ids and places as the library gives them for all of a text."""
    whole = library(kind, 0).encode(*texts, add_special_tokens=framed)
    cut = library(kind, maximum).encode(*texts, add_special_tokens=framed)
    return cut.ids, [start for start, _ in cut.offsets], len(whole) > maximum


def texts(most: int) -> st.SearchStrategy[str]:
    """Texts of so many words, alike or not, with little or much between them."""
    return st.builds(
        lambda drawn, of, between, count: "".join(drawn.choice(of) + drawn.choice(between) for _ in range(count)),
        st.integers().map(random.Random),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
        st.lists(st.sampled_from(BETWEEN), min_size=1, max_size=4),
        st.integers(0, most),
    )


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts(150), maximum=st.integers(3, 9), framed=st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_long_text_has_the_tokens_of_all_of_it(kind: str, text: str, maximum: int, framed: bool) -> None:
    found = encoder(kind, maximum, framed=framed).encode([text])[0]
    assert (list(found.ids), list(found.starts), found.truncated) == expected(kind, maximum, framed, text)


@pytest.mark.parametrize("kind", KINDS)
@given(first=texts(50), second=texts(50), maximum=st.integers(6, 12), framed=st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_long_pair_has_the_tokens_of_all_of_it(
    kind: str, first: str, second: str, maximum: int, framed: bool
) -> None:
    found = encoder(kind, maximum, framed=framed).encode_pair(first, second)
    assert (list(found.ids), list(found.starts), found.truncated) == expected(kind, maximum, framed, first, second)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "merged"])
def test_of_a_long_text_a_beginning_is_enough(kind: str) -> None:
    found = PrefixFinder(file_of(kind), Tokenizer.from_str(file_of(kind)), 8)
    assert len(found.prefix("the cat sat on the mat . " * 4_000)) < 1_000
    assert len(found.prefix("the cat sat")) == 11


def test_a_text_whose_words_do_not_end_is_read_whole() -> None:
    found = PrefixFinder(file_of("words"), Tokenizer.from_str(file_of("words")), 8)
    for text in ("x" * 5_000, " " * 5_000 + "x", "the cat " + "e" + "\u0301" * 5_000):
        assert found.prefix(text) == text


def test_without_a_limit_all_is_read() -> None:
    assert PrefixFinder(json.dumps({}), Tokenizer(models.WordLevel({}, "")), 0).prefix("a " * 5_000) == "a " * 5_000
