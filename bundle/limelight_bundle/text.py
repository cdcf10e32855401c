"""Tokenization of texts: ids, and where each token lies."""

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

from limelight_bundle.detokenizing import Detokenizer
from limelight_bundle.text_prefix import PrefixFinder
from limelight_bundle.tokenizer_files import blank_ids, character_maps, load_tokenizer, token_text


@dataclass(frozen=True)
class _Columns:
    texts: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]
    special: Sequence[bool] = ()
    segments: Sequence[int] = ()
    parts: Sequence[int] = ()
    words: Sequence[int] = ()


class _LazyColumns(ABC):
    """Labels of tokens, computed on first access: a prediction without labels never needs them."""

    @property
    def texts(self) -> Sequence[str]:
        """Piece of the text of each token; for a special token, its name in the vocabulary."""
        return self._columns.texts

    @property
    def starts(self) -> Sequence[int]:
        """Start of each piece, in code points."""
        return self._columns.starts

    @property
    def ends(self) -> Sequence[int]:
        """End of each piece, in code points."""
        return self._columns.ends

    @property
    def special(self) -> Sequence[bool]:
        """Whether each token is special; empty if none is."""
        return self._columns.special

    @cached_property
    def _columns(self) -> _Columns:
        return self._make_columns()

    @abstractmethod
    def _make_columns(self) -> _Columns: ...


class Encoded(_LazyColumns):
    """The tokens of one sequence; `truncated` if tokens over the limit were dropped.

    Args:
        make: computes the labels from `source`.
        complete: whether the text brought its special tokens.
    """

    def __init__(
        self, ids: Sequence[int], cut: bool, make: Callable[..., _Columns], *source: Any, complete: bool = False
    ) -> None:
        self.ids = ids
        self.truncated = cut
        self.complete = complete
        self._make = make
        self.source = source

    @property
    def segments(self) -> Sequence[int]:
        """Segment ids of the tokenizer; empty for a single text."""
        return self._columns.segments

    @property
    def parts(self) -> Sequence[int]:
        """Text of a pair that each token comes from; empty for one text.

        A special token belongs to the text before it.
        """
        return self._columns.parts

    @property
    def words(self) -> Sequence[int]:
        """Number of the word, as the pre-tokenizer splits the text, that each token is a piece of.

        -1 for a special token. Numbers of the second text of a pair follow those of the first.
        """
        encoding = self.source[1]
        found = [-1 if word is None else word for word in encoding.word_ids]
        second = [part == 1 for part in encoding.sequence_ids]
        if any(second):
            behind = 1 + max((word for word, is_second in zip(found, second, strict=True) if not is_second), default=-1)
            found = [
                word + behind if is_second and word >= 0 else word
                for word, is_second in zip(found, second, strict=True)
            ]
        return found

    def _make_columns(self) -> _Columns:
        return self._make(*self.source)


class JoinedEncoding(_LazyColumns):
    """The tokens of consecutive texts of a document, with positions in the document.

    It keeps the tokenizer's results instead of an object for each text: a call may have ten thousand texts, and
    Python's cyclic garbage collector visits all live objects while they are processed.

    Args:
        make: as for each text.
        offsets_in_document: start of each text in the document, in code points; 0 for a separately sent text.
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
    """Turns text into token ids, in the same way for training, export and serving.

    blank_ids: of tokens that stand for any word (`limelight_bundle.tokenizer_files.blank_ids`).

    Args:
        tokenizer: text of a tokenizer.json.
        special_tokens: whether to add special tokens.
        maximum: maximum length, special tokens included; 0 for no limit.
    Raises:
        BundleError: the tokenizer is invalid, or `load_tokenizer` refuses it.
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
        self.blank_ids = blank_ids(self._tokenizer)
        self.detokenizer = Detokenizer(self._tokenizer)

    @cached_property
    def special_texts(self) -> Sequence[str]:
        """Texts that are read as special tokens wherever they stand."""
        return [each for number in self._special_ids if (each := self.token(number))]

    def encode(self, texts: Sequence[str], *, complete: bool = False) -> list[Encoded]:
        """Encode each text, truncated to the limit; of a long text, only a sufficient prefix is read.

        complete: special tokens are in the texts already.
        """
        dropped = [self._count_dropped(text) for text in texts] if self._maps else [0] * len(texts)
        kept = [self._prefix_finder.prefix(text[count:]) for text, count in zip(texts, dropped, strict=True)]
        encodings = self._encodings(kept, special_tokens=self._special_tokens and not complete)
        columns = self._complete_columns if complete else self._text_columns
        return [
            Encoded(encoding.ids, cut, columns, text, encoding, count, complete=complete)
            for text, (encoding, cut), count in zip(kept, encodings, dropped, strict=True)
        ]

    def encode_pair(self, first: str, second: str) -> Encoded:
        """Encode two texts as one sequence with the tokenizer's pair template.

        The longer text is truncated first.
        """
        dropped = (self._count_dropped(first), self._count_dropped(second))
        texts = self._pair_prefixes(first[dropped[0] :], second[dropped[1] :])
        encoding, cut = self._encodings([texts], special_tokens=self._special_tokens)[0]
        return Encoded(encoding.ids, cut, self._pair_columns, texts, encoding, dropped)

    def join_encodings(self, kept: Sequence[Encoded], offsets_in_document: Sequence[int]) -> JoinedEncoding:
        """Return the labels of separately encoded texts as parts of a document."""
        return JoinedEncoding(kept, self._text_columns, offsets_in_document)

    def adds_special_tokens(self, texts: int) -> bool:
        """Return whether a sequence of one text, or of two, gets special tokens."""
        return self._special_tokens and self._tokenizer.num_special_tokens_to_add(texts == 2) > 0

    def _pair_prefixes(self, first: str, second: str) -> tuple[str, str]:
        """Return prefixes that determine the tokens of a pair.

        If both texts exceed the limit, each gets half of it; of an odd limit the longer text gets the odd token, which
        only the whole texts determine.
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
        """Count the leading characters that a character map deletes.

        The library forgets them and places all later tokens too early, so it does not get them.
        """
        count = 0
        while self._maps and count < len(text) and any(each.normalize_str(text[count]) == "" for each in self._maps):
            count += 1
        return count

    def token(self, token_id: int) -> str:
        """Return a token as the vocabulary writes it."""
        return token_text(self._tokenizer, token_id)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Write tokens as text; ids that the vocabulary lacks are skipped."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens))

    def special(self, token_ids: Sequence[int]) -> list[bool]:
        """Return which tokens are special, by their ids; empty if none is."""
        flags = [token in self._special_ids for token in token_ids]
        return flags if any(flags) else []

    def _encodings(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], *, special_tokens: bool
    ) -> list[tuple[Any, bool]]:
        """Encode each text, and return whether it was truncated."""
        whole = self._tokenizer.encode_batch(list(texts), add_special_tokens=special_tokens)
        long = [place for place, each in enumerate(whole) if self._maximum and len(each) > self._maximum]
        found = [(each, False) for each in whole]
        if long:
            again = self._truncating_tokenizer.encode_batch(
                [texts[place] for place in long], add_special_tokens=special_tokens
            )
            for place, each in zip(long, again, strict=True):
                found[place] = (each, True)
        return found

    def _text_columns(self, text: str, encoding: Any, dropped: int) -> _Columns:
        offsets = encoding.offsets  # the library computes attributes at each access
        starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
        if not text.isascii():
            own = [flag == 0 for flag in encoding.special_tokens_mask]
            _extend_over_marks(text, offsets, ends, own)
        texts = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        special = self._name_special(encoding, texts)
        if dropped:
            starts, ends = [start + dropped for start in starts], [end + dropped for end in ends]
        return _Columns(texts, starts, ends, special)

    def _complete_columns(self, text: str, encoding: Any, dropped: int) -> _Columns:
        columns = self._text_columns(text, encoding, dropped)
        return replace(columns, special=self.special(encoding.ids))

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
        """Return which tokens are special, and put their names into `texts`; empty if none is."""
        if not self._special_tokens or 1 not in (flags := encoding.special_tokens_mask):
            return []
        ids = encoding.ids
        for place in compress(range(len(flags)), flags):
            texts[place] = self.token(ids[place])
        return list(map(bool, flags))


def _extend_over_marks(text: str, offsets: Sequence[tuple[int, int]], ends: list[int], own: Sequence[bool]) -> None:
    """Extend the end of each token over the combining marks after its last character.

    A normaliser that composes a letter with its marks, or removes marks, leaves a token whose end covers the letter
    alone.

    Args:
        own: tokens that are pieces of this text; an end never passes the start of the next of them.
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
    """Return whether a character combines with the previous one.

    These are marks, Hangul vowels and finals, and voiced kana marks.
    """
    return (
        unicodedata.category(character)[0] == "M"
        or "\u1161" <= character <= "\u1175"
        or "\u11a8" <= character <= "\u11c2"
        or character in "\uff9e\uff9f"
    )
