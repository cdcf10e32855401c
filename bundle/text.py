"""Text to tokens and back, and a rule that splits sentences."""

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

from bundle.errors import BundleError
from bundle.text_prefix import PrefixFinder
from bundle.tokenizer_files import character_maps, load_tokenizer

# A sentence ends after . ! ? with closing quotes and brackets, before white space; or at a blank line. Possessive, and
# only from the first of several marks: a text of nothing but dots must not take quadratic time.
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]]*+(?=\s)|\n\s*\n")
_LINE_END = re.compile(r"\n|\r\n?")
_CHARACTER = re.compile(r"\S")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class _Columns:
    texts: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    special: Sequence[bool] = ()
    segments: Sequence[int] = ()
    parts: Sequence[int] = ()


class _LazyColumns(ABC):
    """What there is to say of tokens, in columns that are made when somebody looks: who wants a prediction alone never
    does.
    """

    @property
    def texts(self) -> Sequence[str]:
        """The piece of the text that each token stands for; for a special token, its name in the vocabulary."""
        return self._columns.texts

    @property
    def starts(self) -> Sequence[int]:
        """Where that piece begins, in code points."""
        return self._columns.starts

    @property
    def ends(self) -> Sequence[int]:
        """Where that piece ends, in code points."""
        return self._columns.ends

    @property
    def special(self) -> Sequence[bool]:
        """Which tokens are special; empty where none is."""
        return self._columns.special

    @cached_property
    def _columns(self) -> _Columns:
        return self._make_columns()

    @abstractmethod
    def _make_columns(self) -> _Columns: ...


class Encoded(_LazyColumns):
    """The tokens of one sequence; `cut` where tokens over the limit were left out.

    make: makes of `source` what there is to say of them.
    """

    def __init__(self, ids: Sequence[int], cut: bool, make: Callable[..., _Columns], *source: Any) -> None:
        self.ids = ids
        self.truncated = cut
        self._make = make
        self.source = source

    @property
    def segments(self) -> Sequence[int]:
        """The tokenizer's segment ids; empty for a single text."""
        return self._columns.segments

    @property
    def parts(self) -> Sequence[int]:
        """Which text of a pair a token comes from, a special one counting to the text before it; empty for one text."""
        return self._columns.parts

    def _make_columns(self) -> _Columns:
        return self._make(*self.source)


class JoinedEncoding(_LazyColumns):
    """The tokens of several texts of a document, one text after another, placed in the document.

    Of each text the library's answer is kept, and no object of ours: a call may bring ten thousand texts, and Python's
    collector of cycles, for which the server stops, walks through all that lives while they are prepared.
    make: as of each of them. begins: where each text begins in the document, in code points; 0 for one that is sent
    as a text of its own.
    """

    def __init__(
        self, kept: Sequence[Encoded], make: Callable[..., _Columns], offsets_in_document: Sequence[int]
    ) -> None:
        self._make = make
        self._offsets_in_document = offsets_in_document
        self._sources = [list(column) for column in zip(*(each.source for each in kept), strict=True)]

    def _make_columns(self) -> _Columns:
        texts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        special: list[bool] = []
        for begin, *source in zip(self._offsets_in_document, *self._sources, strict=True):
            each = self._make(*source)
            texts += each.texts
            starts += [begin + start for start in each.starts]
            ends += [begin + end for end in each.ends]
            special += each.special or [False] * len(each.texts)
        return _Columns(texts, starts, ends, special)


class Encoder:
    """Turns text into token ids, the same way in training, export and serving.

    tokenizer: text of a tokenizer.json; special_tokens: whether it adds its own; maximum: longest result, special
    tokens included, 0 for no limit.
    Raises: BundleError where the file is broken or holds what `load_tokenizer` refuses.
    """

    def __init__(self, tokenizer: str, *, special_tokens: bool = False, maximum: int = 0) -> None:
        self._special_tokens = special_tokens
        self._maximum = maximum
        self._tokenizer = load_tokenizer(tokenizer)
        if maximum:
            self._truncating_tokenizer = load_tokenizer(tokenizer)
            self._truncating_tokenizer.enable_truncation(maximum)
        self._prefix_finder = PrefixFinder(tokenizer, self._tokenizer, maximum)
        self._maps = character_maps(tokenizer)
        self._special_ids = frozenset(
            number for number, token in self._tokenizer.get_added_tokens_decoder().items() if token.special
        )

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Encode each text, cut to the limit; of a long one no more is read than decides that."""
        dropped = [self._count_dropped(text) for text in texts] if self._maps else [0] * len(texts)
        kept = [self._prefix_finder.prefix(text[count:]) for text, count in zip(texts, dropped, strict=True)]
        return [
            Encoded(encoding.ids, cut, self._text_columns, text, encoding, count)
            for text, (encoding, cut), count in zip(kept, self._encodings(kept), dropped, strict=True)
        ]

    def encode_pair(self, first: str, second: str) -> Encoded:
        """Encode two texts as one sequence, framed as the tokenizer frames pairs; the longer one is cut first."""
        dropped = (self._count_dropped(first), self._count_dropped(second))
        texts = self._pair_prefixes(first[dropped[0] :], second[dropped[1] :])
        encoding, cut = self._encodings([texts])[0]
        return Encoded(encoding.ids, cut, self._pair_columns, texts, encoding, dropped)

    def join_encodings(self, kept: Sequence[Encoded], offsets_in_document: Sequence[int]) -> JoinedEncoding:
        """What there is to say of texts that were encoded one by one, as parts of a document."""
        return JoinedEncoding(kept, self._text_columns, offsets_in_document)

    def adds_special_tokens(self, texts: int) -> bool:
        """Tell whether special tokens come to a sequence of one text, or of two."""
        return self._special_tokens and self._tokenizer.num_special_tokens_to_add(texts == 2) > 0

    def _pair_prefixes(self, first: str, second: str) -> tuple[str, str]:
        """Give what decides the tokens of a pair.

        Where both have more tokens than the limit, each gets half of it, and where that is odd the longer one gets the
        odd token: which one that is, only reading all of both can tell.
        """
        texts, short = (first, second), (self._prefix_finder.prefix(first), self._prefix_finder.prefix(second))
        room = self._maximum - (self._tokenizer.num_special_tokens_to_add(True) if self._special_tokens else 0)
        if short == texts or room % 2 == 0:
            return short
        long = [len(each) < len(text) or self._is_long(text) for each, text in zip(short, texts, strict=True)]
        return texts if all(long) else short

    def _is_long(self, text: str) -> bool:
        return len(self._tokenizer.encode(text, add_special_tokens=False)) > self._maximum

    def _count_dropped(self, text: str) -> int:
        """Count the characters at the beginning that a character map replaces by nothing.

        The library forgets them, and places every token that follows too early; it is not given them.
        """
        count = 0
        while self._maps and count < len(text) and any(each.normalize_str(text[count]) == "" for each in self._maps):
            count += 1
        return count

    def token(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it."""
        return _token(self._tokenizer, token_id)

    def special(self, token_ids: Sequence[int]) -> list[bool]:
        """Tell which tokens are special by their ids alone; empty where none is."""
        flags = [token in self._special_ids for token in token_ids]
        return flags if any(flags) else []

    def _encodings(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[tuple[Any, bool]]:
        """Encode each, and tell whether it was cut."""
        whole = self._tokenizer.encode_batch(list(texts), add_special_tokens=self._special_tokens)
        long = [place for place, each in enumerate(whole) if self._maximum and len(each) > self._maximum]
        found = [(each, False) for each in whole]
        if long:
            again = self._truncating_tokenizer.encode_batch(
                [texts[place] for place in long], add_special_tokens=self._special_tokens
            )
            for place, each in zip(long, again, strict=True):
                found[place] = (each, True)
        return found

    def _text_columns(self, text: str, encoding: Any, dropped: int) -> _Columns:
        offsets = encoding.offsets  # every attribute of the library is made anew each time it is read
        starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
        if not text.isascii():
            own = [flag == 0 for flag in encoding.special_tokens_mask]
            _extend_over_marks(text, offsets, ends, own)
        texts = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        special = self._name_special(encoding, texts)
        if dropped:
            starts, ends = [start + dropped for start in starts], [end + dropped for end in ends]
        return _Columns(texts, starts, ends, special)

    def _pair_columns(self, texts: tuple[str, str], encoding: Any, dropped: tuple[int, int]) -> _Columns:
        of = encoding.sequence_ids
        offsets = encoding.offsets
        ends = [end for _, end in offsets]
        for number, text in enumerate(texts):
            if not text.isascii():
                _extend_over_marks(text, offsets, ends, [part == number for part in of])
        begun, parts = 0, []
        for part in of:
            begun = begun if part is None else part
            parts.append(begun)
        pieces = [texts[part][start:end] for part, (start, _), end in zip(parts, offsets, ends, strict=True)]
        moves = [0 if part is None else dropped[part] for part in of]
        starts = [start + move for (start, _), move in zip(offsets, moves, strict=True)]
        ends = [end + move for end, move in zip(ends, moves, strict=True)]
        special = self._name_special(encoding, pieces)
        return _Columns(pieces, starts, ends, special, encoding.type_ids, parts)

    def _name_special(self, encoding: Any, texts: list[str]) -> list[bool]:
        """Tell which tokens are special, and put their names among the texts; empty where none is."""
        if not self._special_tokens or 1 not in (flags := encoding.special_tokens_mask):
            return []
        ids = encoding.ids
        for place in compress(range(len(flags)), flags):
            texts[place] = self.token(ids[place])
        return list(map(bool, flags))


def _extend_over_marks(text: str, offsets: Sequence[tuple[int, int]], ends: list[int], own: Sequence[bool]) -> None:
    """Let each token end behind the marks that compose into its last character.

    A normaliser that composes a letter and its marks, or takes marks away, leaves a token at its end that covers the
    letter alone. own: which tokens are pieces of this text; of these, the next one's start is never passed.
    """
    limit = len(text)
    for place in range(len(ends) - 1, -1, -1):
        if own[place]:
            end = ends[place]
            while end < limit and _is_combining(text[end]):
                end += 1
            ends[place] = end
            limit = offsets[place][0]


def _is_combining(character: str) -> bool:
    """Tell whether a character composes into the one before it: marks, Hangul vowels and finals, voiced kana marks."""
    return (
        unicodedata.category(character)[0] == "M"
        or "\u1161" <= character <= "\u1175"
        or "\u11a8" <= character <= "\u11c2"
        or character in "\uff9e\uff9f"
    )


class Detokenizer:
    """Turns token ids into text."""

    def __init__(self, tokenizer: str) -> None:
        self._tokenizer = load_tokenizer(tokenizer)

    def text(self, token_ids: Sequence[int]) -> str:
        """Write a sequence as text, without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def token(self, token_id: int) -> str:
        """Give a token as the vocabulary writes it."""
        return _token(self._tokenizer, token_id)

    def stream(self) -> "TextStream":
        """Begin a text that is written token by token."""
        return TextStream(self)


class TextStream:
    """Writes a sequence token by token, each in the time of one: only tokens since the last whole piece are read."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._token_ids: list[int] = []
        self._written = 0  # tokens before this one are in the text already
        self._context = 0  # the last piece begins here: joining depends on what stands before

    def add(self, token_id: int) -> str:
        """Give what a token adds to the text; nothing while it is part of a character, or special."""
        self._token_ids.append(token_id)
        before = self._detokenizer.text(self._token_ids[self._context : self._written])
        now = self._detokenizer.text(self._token_ids[self._context :])
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._context, self._written = self._written, len(self._token_ids)
        return now[len(before) :]


def _token(tokenizer: Any, token_id: int) -> str:
    """Give a token as the vocabulary writes it; empty for an id that it lacks, which the library raises for in part."""
    return str(tokenizer.id_to_token(token_id) or "") if 0 <= token_id < 2**32 else ""


def read_tokenizer(path: Path) -> str:
    """Read a tokenizer.json as text; BundleError where it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BundleError("the tokenizer file is not UTF-8") from error


def split_sentences(text: str, max_characters: int = 0) -> Iterator[tuple[int, int]]:
    """Find the sentences of a text as they are asked for: (begin, end) in code points, without white space around them.

    Splits after `.`, `!` and `?` before white space and at blank lines; and at white space where a sentence is over
    `max_characters`.
    """
    return _split(text, _SENTENCE_END, max_characters)


def split_lines(text: str, max_characters: int = 0) -> Iterator[tuple[int, int]]:
    """Find the lines of a text as `split_sentences` finds its sentences: those that are not empty."""
    return _split(text, _LINE_END, max_characters)


def _split(text: str, end: re.Pattern[str], max_characters: int) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in end.finditer(text):
        yield from _pieces(text, begin, match.end(), max_characters)
        begin = match.end()
    yield from _pieces(text, begin, len(text), max_characters)


def split_words(text: str) -> Iterator[tuple[int, int]]:
    """Find the words of a text as they are asked for, what white space parts: (begin, end) in code points."""
    return (match.span() for match in _WORD.finditer(text))


def _pieces(text: str, begin: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    while found := _CHARACTER.search(text, begin, end):
        begin = found.start()
        if not most or end - begin <= most:
            yield _strip(text, begin, end)
            return
        space = max(text.rfind(" ", begin, begin + most), text.rfind("\n", begin, begin + most))
        middle = space if space > begin else begin + most
        yield _strip(text, begin, middle)
        begin = middle


def _strip(text: str, begin: int, end: int) -> tuple[int, int]:
    return begin, begin + len(text[begin:end].rstrip())
