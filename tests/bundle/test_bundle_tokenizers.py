"""Tokenizers of the well-known families: what of them is taken, and where their tokens stand in a text."""

import base64
import json
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from limelight_bundle.errors import BundleError
from limelight_bundle.text import Encoder
from limelight_bundle.tokenizer_files import VETTED_PATTERNS, check_charsmap, load_tokenizer
from tests.allocated import IS_KNOWN, allocated
from tests.bundle import small
from tests.bundle.charsmap import charsmap
from tests.kit.durations import takes_linear_time

DECOMPOSED = tuple(unicodedata.normalize("NFD", word) for word in ("Café", "résumé", "naïve", "한국어", "ệ", "が"))
WORDS = (
    "Café", "naïve", "résumé", "don't", "12345", "x²", "a_b-c", "İstanbul", "日本語", "한국어", "नमस्ते", "😀",
    "👩\u200d👩\u200d👧", "❤\ufe0f", "…", "ﬁn", "Ａ", "ｶﾞ", "w\u200bx", *DECOMPOSED,
)  # fmt: skip
# A few rules of `nmt_nfkc`, SentencePiece's usual map.
MAP = charsmap(
    {"ﬁ": "fi", "Ａ": "A", "…": "...", "\u200b": "", "\u00ad": "", "\u0001": "", "²": "2", "\u3000": " "}
    | {unicodedata.normalize("NFD", letter): letter for letter in "éïệが"}
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def byte_level(pattern: str | None, normalizer: Any = None) -> Tokenizer:
    """Byte pairs, split by a pattern, or by the library's own."""
    made = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    made.pre_tokenizer = level
    if pattern is not None:
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        made.pre_tokenizer = pre_tokenizers.Sequence([split, level])  # type: ignore[list-item]
    if normalizer is not None:
        made.normalizer = normalizer
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(WORDS * 3, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet))
    return made


def clip() -> Tokenizer:
    made = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    made.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]  # type: ignore[list-item]
    )
    split = pre_tokenizers.Split(Regex(CLIP), behavior="removed", invert=True)
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False)]  # type: ignore[list-item]
    )
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|startoftext|>", "<|endoftext|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=special, end_of_word_suffix="</w>"
    )
    made.train_from_iterator(WORDS * 3, trainer)
    return made


def sentence_piece(*, split: bool) -> Tokenizer:
    """T5 and XLM-R: a character map, repeated spaces, and words that begin with ▁."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(base64.b64decode(MAP)), normalizers.Replace(Regex(" {2,}"), " ")]  # type: ignore[list-item]
    )
    space = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    made.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space]) if split else space  # type: ignore[list-item]
    )
    made.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    made.train_from_iterator(WORDS * 3, trainer)
    return made


def bert() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    made.train_from_iterator(WORDS * 3, trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"]))
    return made


FAMILIES: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": lambda: byte_level(None),
    "gpt2 written out": lambda: byte_level(GPT2),
    "llama 3": lambda: byte_level(LLAMA3),
    "qwen 2": lambda: byte_level(LLAMA3.replace("{1,3}", ""), normalizers.NFC()),
    "clip": clip,
    "t5": lambda: sentence_piece(split=False),
    "xlm-r": lambda: sentence_piece(split=True),
    "bert": bert,
}


@cache
def family(name: str) -> tuple[Encoder, Tokenizer]:
    made = FAMILIES[name]()
    return Encoder(made.to_str()), made


def plain(text: str) -> str:
    """A text without what normalisers change: case, marks, compatibility forms, invisible characters."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).lower())
    return "".join(each for each in folded if unicodedata.category(each)[0] not in "MCZ" and not each.isspace())


TEXTS = st.lists(
    st.tuples(st.sampled_from(["", " ", "  ", "\n", "\u200b", "\u00ad", "\u0001"]), st.sampled_from(WORDS)),
    min_size=1,
    max_size=8,
).map(lambda pairs: "".join(space + word for space, word in pairs))


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS)
def test_tokens_stand_where_their_piece_of_the_text_does(name: str, text: str) -> None:
    encoder, library = family(name)
    found = encoder.encode([text])[0]
    assert list(found.ids) == library.encode(text, add_special_tokens=False).ids
    assert found.texts == [text[start:end] for start, end in zip(found.starts, found.ends, strict=True)]
    assert list(found.starts) == sorted(found.starts)
    covered = set().union(*(range(start, end) for start, end in zip(found.starts, found.ends, strict=True)))
    # Nothing that can be seen is left out, the marks at the end of a word least of all.
    assert not [place for place in range(len(text)) if place not in covered and plain(text[place])]
    assert not [place for place in range(len(text)) if place not in covered and unicodedata.combining(text[place])]
    for token, piece in zip(found.ids, found.texts, strict=True):
        own = library.decode([token]).removeprefix("##").removesuffix("</w>").removesuffix(" ")
        whole = "\ufffd" not in own and plain(own) and own not in ("[UNK]", "<unk>")  # of a lowered İ, a mark is left
        # What becomes several tokens, or none, is shared out as the library likes.
        if whole and not set(piece) & set("…ﬁ\u200b\u00ad\u0001"):
            assert plain(own) == plain(piece)


@pytest.mark.parametrize("normalizer", [normalizers.NFC(), normalizers.NFKC(), normalizers.BertNormalizer(), None])
@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), form=st.sampled_from(["NFC", "NFD"]))
def test_a_word_keeps_its_last_mark(normalizer: Any, words: list[str], form: Any) -> None:
    text = unicodedata.normalize(form, " ".join(words))
    made = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if normalizer is not None:
        made.normalizer = normalizer
    found = Encoder(made.to_str()).encode([text])[0]
    if isinstance(normalizer, normalizers.BertNormalizer):  # which sets Chinese characters apart
        assert "".join(found.texts) == "".join(text.replace("\u200b", "").split()) or "\u200b" in text
    else:
        assert found.texts == text.split()


def test_marks_of_one_text_of_a_pair_are_not_sought_in_the_other() -> None:
    made = Tokenizer(models.WordLevel({"[UNK]": 0, "[SEP]": 1}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.NFC(), pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B:1 [SEP]:1", special_tokens=[("[SEP]", 1)]
    )
    first, second = (unicodedata.normalize("NFD", text) for text in ("le café", "é résumé"))
    found = Encoder(made.to_str(), special_tokens=True).encode_pair(first, second)
    assert found.texts == [*first.split(), "[SEP]", *second.split(), "[SEP]"]
    assert found.ends == [2, len(first), 0, 2, len(second), 0]


def test_what_a_character_map_takes_away_in_front_moves_nothing() -> None:
    encoder, _ = family("xlm-r")
    assert encoder.encode(["\u0001\u200bdon't 日本語"])[0].starts[0] == 2
    found = encoder.encode_pair("\u200bCafé", "\u0001日本語")
    assert [(found.parts[place], found.starts[place]) for place in (0, found.parts.index(1))] == [(0, 1), (1, 1)]
    assert found.texts[-1][-1] == "語"


LONG = ("a", "1", " ", "\n", "'", ".", " \n", "\r\n ", " x", "'s", "é", "e\u0301", "日", "😀", "<|", "a1 ")
CAPITALS = ("A", "Aé", "日A", "\u0301")


@pytest.mark.parametrize("pattern", sorted(VETTED_PATTERNS))
def test_a_vetted_pattern_takes_linear_time(pattern: str) -> None:
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    for piece in LONG + CAPITALS:
        for end in ("", "x", "\n"):
            assert takes_linear_time(split.pre_tokenize_str, piece, 20_000, end), (piece, end)


@pytest.mark.parametrize("pattern", [r"(a+)+b", LLAMA3 + "|x", LLAMA3[:-1], " {2,}|x", "", r"\s*"])
def test_any_other_regular_expression_is_refused(pattern: str) -> None:
    content = json.loads(small.tokenizer())
    content["normalizer"] = {"type": "Replace", "pattern": {"Regex": pattern}, "content": " "}
    with pytest.raises(BundleError, match="a regular expression of no well-known tokenizer"):
        load_tokenizer(json.dumps(content))


def with_map(data: str) -> str:
    content = json.loads(small.tokenizer())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": data}
    return json.dumps(content)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def map_of(units: list[int], texts: bytes = b"x\0") -> str:
    size = len(units) * 4
    return encoded(size.to_bytes(4, "little") + b"".join(unit.to_bytes(4, "little") for unit in units) + texts)


BLOCK = 256
LEAF = 1 << 8


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("é", "is not base64"),
        ("AAA", "is not base64"),
        ("", "is truncated"),
        (encoded(bytes(15)), "is truncated"),
        (encoded(b"\xff" * 15), "is truncated"),
        (encoded((400).to_bytes(4, "little") + bytes(399)), "is truncated"),
        (encoded((3).to_bytes(4, "little") + bytes(3)), "is truncated"),
        (map_of([0] * 255), "leads out of its bounds"),
        (map_of([BLOCK << 10] + [0] * 255), "leads out of its bounds"),
        (map_of([0] * 97 + [97 | 1 << 20] + [0] * 158), "leads out of its bounds"),
        (map_of([0] * 97 + [97 | LEAF | 97 << 10] + [0] * 158, b""), None),
        (map_of([1 << 31 | 9] + [0] * 96 + [97 | LEAF | 97 << 10] + [0] * 158), "leads out of its bounds"),
        (map_of([0] * 97 + [97 | LEAF | 96 << 10] + [0] * 158, b"\xc3\xa9\0"), None),
        (map_of([0, 1 << 31 | 1] + [0] * 95 + [97 | LEAF | 96 << 10] + [0] * 158, b"\xc3\xa9\0"), "has a text outside"),
        (map_of([0, 1 << 31 | 7] + [0] * 95 + [97 | LEAF | 96 << 10] + [0] * 158), "has a text outside its bounds"),
        (map_of([0] * 256, b"\xff"), "is not UTF-8"),
        (charsmap({"a" * 64: "b"}), None),
        (charsmap({"a" * 65: "b"}), "replaces texts of more than 64 bytes"),
        (charsmap({"é": "e"}, texts=b""), None),
        (charsmap({"é": "e", "ö": "oe"}, texts=b"e"), "has a text outside its bounds"),
    ],
)
def test_a_broken_character_map_is_refused(data: str, reason: str | None) -> None:
    if reason is None:
        load_tokenizer(with_map(data)).encode("a é \U0001f600")
        return
    with pytest.raises(BundleError, match=f"character map {reason}"):
        Encoder(with_map(data))


WHOLE = base64.b64decode(MAP)
CHANGES = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=8)
# Where the array has something in it, changes matter more.
USED = [place for place, value in enumerate(WHOLE) if value]
MATTERING = st.lists(st.tuples(st.sampled_from(USED), st.integers(0, 255)), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(changes=st.one_of(CHANGES, MATTERING), text=st.one_of(TEXTS, st.text(max_size=20)))
def test_no_damage_of_a_character_map_brings_the_library_down(changes: list[tuple[int, int]], text: str) -> None:
    broken = bytearray(WHOLE)
    for place, value in changes:
        broken[place] = value
    try:
        check_charsmap(encoded(bytes(broken)))
    except BundleError:
        return
    normalizers.Precompiled(bytes(broken)).normalize_str(text)  # a panic of the library would be no BundleError


def test_a_map_that_is_whole_is_taken() -> None:
    check_charsmap(MAP)
    assert normalizers.Precompiled(WHOLE).normalize_str("ﬁn … ² e\u0301") == "fin ... 2 é"


def test_a_panic_of_the_library_at_load_is_an_error_of_the_bundle() -> None:
    content = json.loads(small.tokenizer())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": None}
    with pytest.raises(BundleError, match="the tokenizer file is invalid"):
        load_tokenizer(json.dumps(content))


@pytest.mark.skipif(not IS_KNOWN, reason="the GNU C library says what is in use")
def test_nothing_is_kept_of_the_texts_that_were_seen() -> None:
    tokenizer = load_tokenizer(
        (Path(__file__).parents[2] / "deploy/demo/dates/1/source.json").read_text(encoding="utf-8")
    )
    tokenizer.encode("1 december 1000")
    before = allocated().uordblks
    for number in range(3000):
        tokenizer.encode(f"{number} december {1000 + number}")
    assert allocated().uordblks - before < 300 * 1024  # it was 3 MB
